/* at: common/x.c; wants: open end */
/* TODO: later */
