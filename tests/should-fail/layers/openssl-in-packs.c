/* at: packs/x.c; wants: belongs to common only */
#include <openssl/evp.h>
