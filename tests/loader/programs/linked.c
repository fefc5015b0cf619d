/* A program linked with the driver: linked WAY [DRIVER]. `race` starts 16 threads whose first driver call comes at the same moment. */
#include <pthread.h>
#include <string.h>

#include "use.h"

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status);

#define THREADS 16

static pthread_barrier_t start;
static const char *driver;

static void *race(void *number)
{
    int version, (*call)(void *, size_t);
    pthread_barrier_wait(&start);
    switch ((size_t)number % 4) {
    case 0:
        CHECK(cuInit(0) == 0);
        break;
    case 1:
        CHECK(cuDriverGetVersion(&version) == 0 && version == 13000);
        break;
    case 2:
        call = (int (*)(void *, size_t))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxSetLimit");
        CHECK(call && call(NULL, 0) == 0);
        break;
    case 3:
        call = (int (*)(void *, size_t))dlsym(dlopen(driver, RTLD_NOW), "cuCtxGetLimit");
        CHECK(call && call(NULL, 0) == 0);
        break;
    }
    return NULL;
}

static void race_all(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, race, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int count, char **arguments)
{
    const char *way = arguments[1];
    driver = count > 2 ? arguments[2] : NULL;
    if (strcmp(way, "linked") == 0)
        use_functions(cuInit, cuDriverGetVersion, cuGetProcAddress_v2);
    else if (strcmp(way, "default") == 0)
        use_handle(dlsym, RTLD_DEFAULT);
    else if (strcmp(way, "next") == 0)
        use_handle(dlsym, RTLD_NEXT);
    else if (strcmp(way, "program") == 0)
        use_handle(dlsym, dlopen(NULL, RTLD_NOW));
    else if (strcmp(way, "race") == 0)
        race_all();
    else
        CHECK(!"a known way");
    return 0;
}
