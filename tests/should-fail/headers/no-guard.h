/* at: common/x.h; wants: does not compile alone */
struct ldr_x {
	int a;
};
