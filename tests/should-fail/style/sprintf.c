/* at: common/x.c; wants: banned call */
	sprintf(a, "%d", 1);
