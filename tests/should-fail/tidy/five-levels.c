/* at: common/x.c; wants: readability-function-size */
int ldr_x(int a);
int ldr_x(int a)
{
	if (a > 1) {
		while (a > 2) {
			if (a > 3) {
				while (a > 4) {
					if (a > 5) {
						a--;
					}
				}
			}
		}
	}
	return a;
}
