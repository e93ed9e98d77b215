/* at: common/x.c; wants: fopen without e */
	FILE *f = fopen(name, "rb");
