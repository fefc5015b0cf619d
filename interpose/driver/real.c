/* Opening the real driver and routing look-ups; see real.h. */
#include "driver/real.h"

#include <dlfcn.h>
#include <errno.h>

#include "driver/driver_file.h"
#include "driver/loader.h"
#include "driver/wrapped.h"

struct row {
    const char *symbol;
    void *ours; /* NULL: it is forwarded, so look-ups return the real address */
};

#define OURS_0(symbol) NULL
#define OURS_1(symbol) (void *)symbol
#define OURS_2(symbol) (void *)symbol
#define OURS_3(symbol) (void *)symbol
#define OURS_4(symbol) (void *)symbol
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

/*
 * Several threads may open the driver at once. None waits for another: a lock held during dlopen could deadlock with the loader's own
 * lock. All store the same values, and `library` last.
 */
static void *library;      /* atomic; NULL until the table and the routes are filled */
static int missing_driver; /* atomic: there is none, and that has been logged */

/* Wrapped rows by real address, open addressing; row + 1, or 0 for none. A slot is set once. */
#define ROUTE_SLOTS 2048
static uint16_t routes[ROUTE_SLOTS]; /* atomic */
_Static_assert(ROW_COUNT * 2 < ROUTE_SLOTS, "mostly empty");

static CUresult missing(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult no_driver(void)
{
    return CUDA_ERROR_NO_DEVICE;
}

static const void *real_address(unsigned row)
{
    return __atomic_load_n((void **)&tsr_real + row, __ATOMIC_RELAXED);
}

static unsigned first_slot(const void *address)
{
    return (unsigned)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15ull >> 53); /* 11 bits */
}

static void add_route(unsigned row)
{
    for (unsigned slot = first_slot(real_address(row));; slot = (slot + 1) % ROUTE_SLOTS) {
        uint16_t expected = 0;
        if (__atomic_compare_exchange_n(&routes[slot], &expected, (uint16_t)(row + 1), false, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE) ||
            expected == row + 1)
            return;
    }
}

static void fill_table(void *driver)
{
    for (unsigned row = 0; row < ROW_COUNT; row++) {
        void *real = tsr_loader_symbol(driver, rows[row].symbol);
        __atomic_store_n((void **)&tsr_real + row, real ? real : (void *)missing, __ATOMIC_RELAXED);
        if (real && rows[row].ours)
            add_route(row);
    }
}

static void *open_driver(void)
{
    if (__atomic_load_n(&missing_driver, __ATOMIC_RELAXED))
        return NULL;
    int saved_errno = errno;
    void *driver = tsr_driver_file_open();
    if (driver) {
        fill_table(driver);
        __atomic_store_n(&library, driver, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&missing_driver, 1, __ATOMIC_RELAXED);
    }
    dlerror(); /* of functions that this driver lacks */
    errno = saved_errno;
    return driver;
}

void *tsr_real_library(void)
{
    void *driver = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    return driver ? driver : open_driver();
}

uintptr_t tsr_real_start(void)
{
    const void *driver = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    return driver ? tsr_loader_start_of(driver) : 0;
}

bool tsr_real_open(void)
{
    return tsr_real_library() != NULL;
}

void *tsr_forward_target(uint64_t row)
{
    return tsr_real_open() ? ((void **)&tsr_real)[row] : (void *)no_driver;
}

void *tsr_real_route(void *pointer)
{
    uint16_t row;
    for (unsigned slot = first_slot(pointer); (row = __atomic_load_n(&routes[slot], __ATOMIC_ACQUIRE));
         slot = (slot + 1) % ROUTE_SLOTS)
        if (real_address(row - 1u) == pointer)
            return rows[row - 1].ours;
    return pointer;
}
