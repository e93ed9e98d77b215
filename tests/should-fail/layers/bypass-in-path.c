/* at: common/x.c; wants: common must not include packs */
#include "common/../packs/codec.h"
