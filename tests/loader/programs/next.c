/*
 * Three objects define cuProbe and probe, each answering its number plus that of the next one: RTLD_NEXT must start after the caller.
 * Compiled with NUMBER 1 (the program), 2 and 3 (libraries, in this order).
 */
#include "use.h"

int cuProbe(void);
int probe(void);

static int next(const char *name)
{
    int (*function)(void) = (int (*)(void))dlsym(RTLD_NEXT, name);
    return function ? function() : 0;
}

int cuProbe(void)
{
    return NUMBER + 10 * next("cuProbe");
}

int probe(void)
{
    return NUMBER + 10 * next("probe");
}

#if NUMBER == 1
int main(void)
{
    CHECK(cuProbe() == 321);
    CHECK(probe() == 321);
    CHECK((int (*)(void))dlsym(RTLD_DEFAULT, "cuProbe") == cuProbe);
    return 0;
}
#else
__attribute__((constructor)) static void early(void)
{
    CHECK(cuProbe() == 321);
}
#endif
