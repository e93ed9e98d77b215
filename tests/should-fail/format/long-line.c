/* at: common/x.c; wants: clang-format */
int ldr_x(int first_argument_of_many, int second_argument_of_many, int third_argument_of_many, int d);
