/* at: common/x.c; wants: readability-function-size */
int ldr_x(int a, int b, int c, int d, int e, int f, int g);
int ldr_x(int a, int b, int c, int d, int e, int f, int g)
{
	return a + b + c + d + e + f + g;
}
