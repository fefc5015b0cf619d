/* dlsym answers as the C library's does: details CASE [DRIVER]. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "use.h"

static int is_mapped(const char *file)
{
    static char text[1 << 20];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    text[fread(text, 1, sizeof text - 1, maps)] = 0;
    fclose(maps);
    return strstr(text, file) != NULL;
}

static void found_nothing(void *handle, const char *name)
{
    CHECK(!dlsym(handle, name));
    const char *error = dlerror();
    CHECK(error && strstr(error, name));
    CHECK(!dlerror());
}

/* Look-ups that do not concern the driver do not open it, and answer as always. */
static void unconcerned(const char *driver)
{
    void *mathematics = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = (double (*)(double))dlsym(mathematics, "cos");
    CHECK(cosine && cosine(0) == 1);
    found_nothing(mathematics, "cuInit");
    found_nothing(mathematics, "cuNothing");
    found_nothing(mathematics, "nothing");
    found_nothing(mathematics, "");
    found_nothing(RTLD_DEFAULT, "cuNothing");
    found_nothing(RTLD_NEXT, "cuNothing");
    found_nothing(dlopen(NULL, RTLD_NOW), "cuNothing");
    CHECK(!is_mapped(driver));
}

/* errno and dlerror after look-ups of the driver; the first one opens it. */
static void errors(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(handle);
    errno = 1234;
    CHECK(dlsym(handle, "cuInit"));
    CHECK(errno == 1234);
    CHECK(!dlerror());
    found_nothing(handle, "cuNothing");
    found_nothing(handle, "cudaMalloc");
    CHECK(dlsym(handle, "cuInit") && !dlerror());
}

/* A function that the driver has and our table does not. */
static void newer(const char *driver)
{
    const char *files[] = {"libcuda.so.1", driver};
    for (int i = 0; i < 2; i++) {
        int answer = 0;
        int (*future)(int *) = (int (*)(int *))dlsym(dlopen(files[i], RTLD_NOW), "cuNullFuture");
        CHECK(future && future(&answer) == 0 && answer == 580);
        CHECK(!dlerror());
    }
    void *future = NULL;
    resolve_function resolve = (resolve_function)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
    CHECK(resolve("cuNullFuture", &future, 13000, 0, NULL) == 0 && future);
}

/* A function that our table has and the driver does not: nobody finds it. */
static void older(const char *driver)
{
    const char *files[] = {"libcuda.so.1", driver};
    for (int i = 0; i < 2; i++) {
        void *handle = dlopen(files[i], RTLD_NOW);
        CHECK(dlsym(handle, "cuInit") && !dlerror());
        found_nothing(handle, "cuGreenCtxCreate");
    }
}

/* An object that happens to have a function called like one of the driver's keeps it. */
static void others(const char *file)
{
    int (*function)(void) = (int (*)(void))dlsym(dlopen(file, RTLD_NOW), "cuInit");
    CHECK(function && function() == 77);
}

int main(int count, char **arguments)
{
    const char *name = arguments[1], *file = count > 2 ? arguments[2] : NULL;
    if (strcmp(name, "unconcerned") == 0)
        unconcerned(file);
    else if (strcmp(name, "errors") == 0)
        errors();
    else if (strcmp(name, "newer") == 0)
        newer(file);
    else if (strcmp(name, "older") == 0)
        older(file);
    else if (strcmp(name, "others") == 0)
        others(file);
    else
        CHECK(!"a known case");
    return 0;
}
