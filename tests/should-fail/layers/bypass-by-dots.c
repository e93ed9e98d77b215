/* at: common/x.c; wants: is not a path from the root */
#include "../packs/codec.h"
