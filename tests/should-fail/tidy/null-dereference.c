/* at: common/x.c; wants: Dereference of null pointer */
int ldr_x(int a);
int ldr_x(int a)
{
	int *p = 0;

	return a ? *p : 0;
}
