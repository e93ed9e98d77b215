/* at: common/x.c; wants: clang-format */
int ldr_x(int a)
{
    return a;
}
