/* at: vfs/x.c; wants: private to packs/ */
#include "packs/codec_priv.h"
