/* at: common/x.h; wants: does not compile alone */
#ifndef X_H
#define X_H
int ldr_x();
#endif
