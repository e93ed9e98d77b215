/* at: server/x.c; wants: belongs to tests only */
#include <criterion/criterion.h>
