/* at: common/x.c; wants: mutable global */
static int counter;
