/* at: common/x.h; wants: does not compile alone */
#ifndef X_H
#define X_H
uint64_t ldr_x(void);
#endif
