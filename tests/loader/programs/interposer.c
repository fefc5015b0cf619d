/* Another library that overrides dlsym, as HAMi and others do: it counts, and continues in the C library's. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int counted;

void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    if (!real)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    counted += strncmp(name, "cu", 2) == 0;
    return real(handle, name);
}

__attribute__((destructor)) static void tell(void)
{
    printf("counted %d\n", counted);
}
