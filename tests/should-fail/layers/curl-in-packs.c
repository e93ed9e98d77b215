/* at: packs/x.c; wants: belongs to client only */
#include <curl/curl.h>
