/* at: vfs/x.c; wants: vfs must not include client */
#include "client/fetch.h"
