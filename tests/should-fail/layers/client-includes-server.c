/* at: client/cli/x.c; wants: must not include server */
#include "server/http.h"
