/*
 * Uses the driver through functions that were found in some way, and prints which object each of them is in: "cuInit /path/libcuda.so.1".
 * The null driver answers everything with success.
 */
#ifndef USE_H
#define USE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                                       \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                             \
            exit(1);                                                                                                           \
        }                                                                                                                      \
    } while (0)

typedef void *(*look_up)(void *handle, const char *name);
typedef int (*init_function)(unsigned);
typedef int (*version_function)(int *);
typedef int (*resolve_function)(const char *, void **, int, unsigned long long, int *);

static inline void say_where(const char *name, const void *function)
{
    Dl_info object;
    CHECK(function && dladdr(function, &object));
    printf("%s %s\n", name, object.dli_fname);
}

static inline void use_functions(init_function init, version_function version, resolve_function resolve)
{
    int number = 0, status = -1;
    void *launch = NULL, *resolver = NULL;
    say_where("cuInit", (const void *)init);
    say_where("cuDriverGetVersion", (const void *)version);
    say_where("cuGetProcAddress_v2", (const void *)resolve);
    CHECK(init(0) == 0);
    CHECK(version(&number) == 0 && number >= 12000);
    CHECK(resolve("cuLaunchKernel", &launch, 12000, 0, &status) == 0 && status == 0);
    say_where("cuLaunchKernel", launch);
    CHECK(resolve("cuGetProcAddress", &resolver, 12000, 0, NULL) == 0);
    say_where("cuGetProcAddress", resolver);
}

/* A handle, or the end. */
static inline void *opened(void *handle)
{
    if (!handle)
        printf("%s\n", dlerror());
    CHECK(handle);
    return handle;
}

static inline void use_handle(look_up find, void *handle)
{
    use_functions((init_function)find(handle, "cuInit"), (version_function)find(handle, "cuDriverGetVersion"),
                  (resolve_function)find(handle, "cuGetProcAddress_v2"));
}

/* The C library's dlsym, past every library that exports one. */
static inline look_up real_dlsym(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    CHECK(libc);
    return (look_up)dlvsym(libc, "dlsym", "GLIBC_2.2.5");
}

#endif
