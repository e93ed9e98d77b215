/* at: common/x.c; wants: banned call */
void ldr_x(char *a, const char *b)
{
	strcpy(a, b);
}
