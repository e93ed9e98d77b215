/* at: client/cli/x.c; wants: private to client/ */
#include "client/fetch_priv.h"
