#include "value_time.h"

#include "../context/context.h"
#include "../space/space.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#define NEIGHBOURS 8u
#define KNOWN 64u
#define WRITES (sizeof ((struct tsr_value_row *)0)->writes / sizeof(struct tsr_value_write))

/* What lies behind a range of the address space; ranges never change their memory and their ids are never used again. */
struct backing {
    uint32_t id;
    uint64_t begin, file, offset; /* mapping's first address; identity of its file; offset of begin in it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct backing known[KNOWN]; /* lock; by id */

static uint64_t mix(uint64_t value)
{
    value ^= value >> 31;
    value *= 0x9e3779b97f4a7c15u;
    value ^= value >> 29;
    value *= 0xbf58476d1ce4e5b9u;
    return value ^ value >> 32;
}

static uint64_t parse_hex(const char **text)
{
    uint64_t value = 0;
    for (;; ++*text) {
        char c = **text;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uint64_t)(c - 'a' + 10);
        else
            return value;
    }
}

/* One line of /proc/self/maps: begin-end mode offset major:minor inode. True if it holds the address. */
static bool parse_mapping(const char *line, uint64_t address, struct backing *out)
{
    uint64_t begin = parse_hex(&line), end, offset, device, inode = 0;
    line += *line == '-';
    end = parse_hex(&line);
    if (address < begin || address >= end)
        return false;
    line += strcspn(line + 1, " ") + 2; /* the mode */
    offset = parse_hex(&line);
    line += *line == ' ';
    device = parse_hex(&line) << 20;
    line += *line == ':';
    device |= parse_hex(&line);
    line += strspn(line, " ");
    for (; *line >= '0' && *line <= '9'; line++)
        inode = inode * 10 + (uint64_t)(*line - '0');
    *out = (struct backing){0, begin, inode ? mix(device) ^ mix(inode) : mix((uint64_t)getpid()), inode ? offset : begin};
    return true;
}

static bool find_mapping(uint64_t address, struct backing *out)
{
    char buffer[8192];
    size_t held = 0;
    bool found = false;
    int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t got;
    while (!found && descriptor >= 0 && (got = read(descriptor, buffer + held, sizeof buffer - 1 - held)) > 0) {
        held += (size_t)got;
        buffer[held] = 0;
        char *line = buffer, *end;
        for (; !found && (end = strchr(line, '\n')); line = end + 1)
            found = parse_mapping(line, address, out);
        held -= (size_t)(line - buffer);
        memmove(buffer, line, held);
        if (held == sizeof buffer - 1)
            held = 0;
    }
    if (descriptor >= 0)
        close(descriptor);
    return found;
}

static uint64_t place_of(uint64_t address)
{
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    const struct tsr_range *range = tsr_snapshot_find(snapshot, address);
    uint32_t id = range ? range->id : 0;
    tsr_space_put(space, snapshot);
    if (!id)
        return 0;
    pthread_mutex_lock(&lock);
    struct backing *slot = &known[id % KNOWN];
    bool found = slot->id == id && address >= slot->begin;
    if (!found && (found = find_mapping(address, slot)))
        slot->id = id;
    uint64_t place = found ? mix(slot->file + slot->offset + (address - slot->begin)) : 0;
    pthread_mutex_unlock(&lock);
    return place;
}

/* The row of the place; take: claim one. NULL: none. */
static struct tsr_value_row *row_of(uint64_t place, bool take)
{
    struct tsr_machine *machine = tsr_machine_instance();
    const uint64_t rows = sizeof machine->values / sizeof *machine->values;
    struct tsr_value_row *first = NULL;
    for (uint64_t i = 0; place && i < NEIGHBOURS; i++) {
        struct tsr_value_row *row = &machine->values[(place + i) % rows];
        uint64_t holder = __atomic_load_n(&row->place, __ATOMIC_ACQUIRE);
        if (holder == place)
            return row;
        if (!holder && take &&
            __atomic_compare_exchange_n(&row->place, &holder, place, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return row;
        if (holder == place)
            return row;
        first = first ? first : row;
    }
    if (take && first) {
        __atomic_store_n(&first->count, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&first->place, place, __ATOMIC_RELEASE);
    }
    return take ? first : NULL;
}

/* Of writes at the same time one may be lost. */
void tsr_value_time_store(uint64_t address, uint64_t value, uint64_t ns)
{
    struct tsr_value_row *row = row_of(place_of(address), true);
    if (!row)
        return;
    uint64_t number = __atomic_load_n(&row->count, __ATOMIC_ACQUIRE);
    struct tsr_value_write *write = &row->writes[number % WRITES];
    __atomic_store_n(&write->value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&write->ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(&row->count, number + 1, __ATOMIC_RELEASE);
}

uint64_t tsr_value_time_load(uint64_t address, bool (*fulfils)(const void *condition, uint64_t value), const void *condition)
{
    const struct tsr_value_row *row = row_of(place_of(address), false);
    uint64_t count = row ? __atomic_load_n(&row->count, __ATOMIC_ACQUIRE) : 0, since_ns = 0;
    for (uint64_t back = 1; back <= count && back <= WRITES; back++) {
        const struct tsr_value_write *write = &row->writes[(count - back) % WRITES];
        if (fulfils(condition, __atomic_load_n(&write->value, __ATOMIC_RELAXED)))
            since_ns = __atomic_load_n(&write->ns, __ATOMIC_RELAXED);
        else if (since_ns)
            break;
    }
    return since_ns;
}
