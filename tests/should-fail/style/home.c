/* at: common/x.c; wants: path of one machine */
static const char *const x = "/home/someone/x";
