/* at: client/x.c; wants: belongs to common only */
#include <mbedtls/pk.h>
