/* at: common/x.c; wants: 1,000 lines */
