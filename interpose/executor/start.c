/*
 * How the program starts where glibc is older than 2.34: there, the program's own start code runs its constructors, which newer start code
 * leaves to the C library. The linker puts this in between (-Wl,--wrap).
 */
typedef int (*main_function)(int, char **, char **);
typedef void (*constructor)(int, char **, char **);

__asm__(".symver start_main,__libc_start_main@GLIBC_2.2.5");
int start_main(main_function, int, char **, constructor, void (*)(void), void (*)(void), void *);
int __wrap___libc_start_main(main_function, int, char **, constructor, void (*)(void), void (*)(void), void *);

extern constructor __init_array_start[], __init_array_end[];

static void construct(int count, char **arguments, char **environment)
{
    for (constructor *each = __init_array_start; each < __init_array_end; each++)
        (*each)(count, arguments, environment);
}

int __wrap___libc_start_main(main_function run, int count, char **arguments, constructor begin, void (*end)(void),
                             void (*unload)(void), void *stack)
{
    return start_main(run, count, arguments, begin ? begin : construct, end, unload, stack);
}
