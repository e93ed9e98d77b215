/* at: packs/x.h; wants: packs must not include cache */
#include "cache/source.h"
