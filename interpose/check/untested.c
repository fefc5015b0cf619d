/* See untested.h. */
#include "check/untested.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/format.h"
#include "base/map.h"
#include "object/registry.h"

#define ROOM(of) (sizeof(of) / sizeof(of)[0])

static struct tsr_map
    reported[TSR_CHECK_LACKS]; /* memory lock; by ids of functions, their entries; the table itself: there was no room */

void tsr_lack_set(struct tsr_lack *lack, enum tsr_check_lack kind, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    lack->kind = kind;
    tsr_format_list(lack->why, sizeof lack->why, format, values);
    va_end(values);
}

static void *add(struct tsr_checks *checks, const struct tsr_function_record *function, const struct tsr_lack *lack)
{
    uint64_t number = __atomic_fetch_add(&checks->untested_functions, 1, __ATOMIC_RELAXED);
    if (number >= ROOM(checks->told_untested))
        return checks;
    struct tsr_check_untested *entry = &checks->told_untested[number];
    entry->process = (uint32_t)getpid();
    entry->lack = lack->kind;
    tsr_format(entry->why, sizeof entry->why, "%s", lack->why);
    tsr_format(entry->function, sizeof entry->function, "%s", function->name);
    __atomic_store_n(&entry->ready, 1, __ATOMIC_RELEASE);
    return entry;
}

void tsr_untested_count_locked(struct tsr_checks *checks, const struct tsr_function_record *function,
                               const struct tsr_lack *lack)
{
    struct tsr_map *map = &reported[lack->kind];
    void *entry = tsr_map_find(map, function->id);
    __atomic_fetch_add(&checks->untested[lack->kind], 1, __ATOMIC_RELAXED);
    if (!entry) {
        if (!tsr_map_set(map, function->id, checks)) /* first, so that it is reported only once */
            return;
        entry = add(checks, function, lack);
        tsr_map_set(map, function->id, entry);
    }
    if (entry != checks)
        __atomic_fetch_add(&((struct tsr_check_untested *)entry)->launches, 1, __ATOMIC_RELAXED);
}
