/* A library that uses the driver, itself linked with it or opening it. */
#include <string.h>

#include "use.h"

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status);

void use_inside(const char *way, const char *file);
void use_inside(const char *way, const char *file)
{
    if (strcmp(way, "dlopen") == 0)
        use_handle(dlsym, opened(dlopen(file, RTLD_NOW)));
#ifdef LINKED
    else if (strcmp(way, "linked") == 0)
        use_functions(cuInit, cuDriverGetVersion, cuGetProcAddress_v2);
#endif
    else
        CHECK(!"a known way");
    fflush(stdout); /* in a namespace of its own this is another C library, whose exit nobody calls */
}
