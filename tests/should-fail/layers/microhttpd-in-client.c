/* at: client/x.c; wants: belongs to server only */
#include <microhttpd.h>
