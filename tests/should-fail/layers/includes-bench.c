/* at: cache/x.c; wants: cache must not include bench */
#include "bench/bench.h"
