/* at: server/x.c; wants: server may include only */
#include "client/publish.h"
