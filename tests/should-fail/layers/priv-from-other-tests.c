/* at: tests/unit/vfs/test_x.c; wants: private to packs/ */
#include "packs/codec_priv.h"
