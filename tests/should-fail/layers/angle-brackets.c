/* at: common/x.c; wants: common must not include packs */
#include <packs/codec.h>
