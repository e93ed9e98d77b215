/* at: common/x.c; wants: common must not include packs */
#include "packs/pack_reader.h"
