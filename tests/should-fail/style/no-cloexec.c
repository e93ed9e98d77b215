/* at: common/x.c; wants: without O_CLOEXEC */
	int fd = open(name, O_RDONLY);
