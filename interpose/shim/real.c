/* Opening the real driver and routing look-ups; see real.h. */
#include "shim/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "shim/wrapped.h"

struct row {
    const char *symbol;
    void *ours; /* NULL: forwarded, so look-ups are given the real address */
};

#define OURS_0(symbol) NULL
#define OURS_1(symbol) (void *)symbol
#define OURS_CHOOSE(wraps) OURS_##wraps
#define OURS_FOR(wraps) OURS_CHOOSE(wraps)
#define ROW(symbol) {#symbol, OURS_FOR(TSR_WRAPS(symbol))(symbol)},
static const struct row rows[] = {
#define TSR_DRIVER(symbol, class, status, type) ROW(symbol)
#define TSR_DRIVER_TWIN(symbol, base, type) ROW(symbol)
#define TSR_DRIVER_UNTYPED(symbol, class, status) ROW(symbol)
#include "api/driver.def"
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])
_Static_assert(sizeof(struct tsr_real) == sizeof(void *) * ROW_COUNT, "one pointer per row");

static struct route {
    const void *real;
    void *ours;
} routes[ROW_COUNT]; /* sorted by real; written once before opened is set */
static unsigned route_count;
static int opened; /* atomic: 0 not tried, 1 open, 2 there is no driver */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult missing(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult no_driver(void)
{
    return CUDA_ERROR_NO_DEVICE;
}

static int by_address(const void *a, const void *b)
{
    const struct route *left = a, *right = b;
    return left->real < right->real ? -1 : left->real > right->real;
}

static void *open_library(void)
{
    static const char *const places[] = {
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
        "/usr/lib/wsl/lib/libcuda.so.1",          "/usr/lib/libcuda.so.1",
    };
    const char *path = getenv("TESSERA_DRIVER");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (path && *path && !library)
        tsr_error("the driver named by TESSERA_DRIVER cannot be opened: %s", dlerror());
    for (unsigned i = 0; !library && !(path && *path) && i < sizeof places / sizeof places[0]; i++)
        library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static void fill_table(void *library)
{
    void **table = (void **)&tsr_real;
    for (unsigned i = 0; i < ROW_COUNT; i++) {
        void *real = library ? dlsym(library, rows[i].symbol) : NULL;
        if (real && rows[i].ours)
            routes[route_count++] = (struct route){real, rows[i].ours};
        table[i] = real ? real : library ? (void *)missing : (void *)no_driver;
    }
    qsort(routes, route_count, sizeof routes[0], by_address);
}

bool tsr_real_open(void)
{
    int state = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
    if (state)
        return state == 1;
    int saved_errno = errno;
    pthread_mutex_lock(&lock);
    if (!opened) {
        void *library = open_library();
        if (!library)
            tsr_error("no CUDA driver found; set TESSERA_DRIVER to the absolute path of libcuda.so.1");
        fill_table(library);
        __atomic_store_n(&opened, library ? 1 : 2, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return opened == 1;
}

void *tsr_real_route(void *pointer)
{
    struct route key = {.real = pointer};
    const struct route *found = bsearch(&key, routes, route_count, sizeof routes[0], by_address);
    return found ? found->ours : pointer;
}
