/* at: cache/x.c; wants: cache must not include vfs */
# include "vfs/vfs.h"
