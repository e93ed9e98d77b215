/* at: client/x.c; wants: client must not include client/cli */
#include "client/cli/options.h"
