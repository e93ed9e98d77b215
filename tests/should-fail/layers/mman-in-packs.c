/* at: packs/x.c; wants: reaches the operating system through common */
#include <sys/mman.h>
