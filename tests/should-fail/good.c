/* at: common/x.c; wants: nothing */
#include <string.h>

int ldr_x(char *to, const char *from, int count);

int ldr_x(char *to, const char *from, int count)
{
	if (count > 0)
		memcpy(to, from, (unsigned)count);
	return count;
}
