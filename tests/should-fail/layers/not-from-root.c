/* at: packs/x.c; wants: is not a path from the root */
#include "codec.h"
