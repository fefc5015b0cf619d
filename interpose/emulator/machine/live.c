/* See live.h. */
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"

#include "map.h"

#define PID_WRITING 0xffffffffu /* the row is being claimed */

enum { ROW_FREE, ROW_WRITING, ROW_VALID };

/* Field 22 of /proc/<pid>/stat, counted after the last ')' since the name may contain anything; 0 when there is no such process. */
static uint64_t start_ticks(uint32_t pid)
{
    char path[32], text[1024];
    tsr_format(path, sizeof path, "/proc/%u/stat", pid);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    ssize_t length = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    if (length <= 0)
        return 0;
    text[length] = 0;
    char *field = strrchr(text, ')');
    for (int skip = 0; field && skip < 20; skip++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field + 1, NULL, 10) : 0;
}

static void row_give_back(struct tsr_machine *machine, struct tsr_process_row *row)
{
    for (uint32_t device = 0; device < TSR_MACHINE_DEVICES; device++) {
        uint64_t held = __atomic_exchange_n(&row->memory_used_bytes[device], 0, __ATOMIC_ACQ_REL);
        __atomic_sub_fetch(&machine->live[device].memory_used_bytes, held, __ATOMIC_ACQ_REL);
    }
}

/*
 * Processes that died without giving back what they held, and `replaced` (0: none), which has executed another program since. Whoever clears the
 * pid gives back; the row is free after that.
 */
static void collect_dead(struct tsr_machine *machine, uint32_t replaced)
{
    for (int i = 0; i < TSR_MACHINE_PROCESSES; i++) {
        struct tsr_process_row *row = &machine->process[i];
        uint32_t pid = __atomic_load_n(&row->pid, __ATOMIC_ACQUIRE);
        if (pid == 0 || pid == PID_WRITING)
            continue;
        if (pid != replaced && start_ticks(pid) == __atomic_load_n(&row->start_ticks, __ATOMIC_ACQUIRE))
            continue;
        row_give_back(machine, row);
        __atomic_compare_exchange_n(&row->pid, &pid, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

int tsr_live_attach(struct tsr_machine *machine)
{
    uint32_t self = (uint32_t)getpid();
    uint64_t ticks = start_ticks(self);
    collect_dead(machine, self);
    __atomic_add_fetch(&machine->processes, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < TSR_MACHINE_PROCESSES; i++) {
        struct tsr_process_row *row = &machine->process[i];
        uint32_t free_pid = 0;
        if (!__atomic_compare_exchange_n(&row->pid, &free_pid, PID_WRITING, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&row->start_ticks, ticks, __ATOMIC_RELEASE);
        __atomic_store_n(&row->pid, self, __ATOMIC_RELEASE);
        return i;
    }
    return -1;
}

void tsr_live_detach(struct tsr_machine *machine, int row)
{
    if (row < 0)
        return;
    row_give_back(machine, &machine->process[row]);
    __atomic_store_n(&machine->process[row].pid, 0, __ATOMIC_RELEASE);
}

static bool take(struct tsr_machine *machine, uint32_t device, uint64_t bytes)
{
    uint64_t *used = &machine->live[tsr_machine_number(device)].memory_used_bytes;
    uint64_t capacity = machine->devices[device].memory_bytes;
    uint64_t before = __atomic_load_n(used, __ATOMIC_ACQUIRE);
    do {
        if (bytes > capacity || before > capacity - bytes)
            return false;
    } while (!__atomic_compare_exchange_n(used, &before, before + bytes, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

bool tsr_live_memory_take(struct tsr_machine *machine, int row, uint32_t device, uint64_t bytes)
{
    if (!take(machine, device, bytes)) {
        if (bytes > machine->devices[device].memory_bytes)
            return false;
        collect_dead(machine, 0);
        if (!take(machine, device, bytes))
            return false;
    }
    if (row >= 0)
        __atomic_add_fetch(&machine->process[row].memory_used_bytes[tsr_machine_number(device)], bytes, __ATOMIC_ACQ_REL);
    return true;
}

void tsr_live_memory_give(struct tsr_machine *machine, int row, uint32_t device, uint64_t bytes)
{
    device = tsr_machine_number(device);
    if (row >= 0)
        __atomic_sub_fetch(&machine->process[row].memory_used_bytes[device], bytes, __ATOMIC_ACQ_REL);
    __atomic_sub_fetch(&machine->live[device].memory_used_bytes, bytes, __ATOMIC_ACQ_REL);
}

static void raise_to(uint64_t *word, uint64_t value)
{
    uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (before < value && !__atomic_compare_exchange_n(word, &before, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* The name as it stands in a row: cut to fit. */
static bool row_is(const struct tsr_kernel_row *row, uint32_t device, const char *name)
{
    return row->device == device && strncmp(row->name, name, sizeof row->name - 1) == 0;
}

static uint32_t hash(uint32_t device, const char *name)
{
    uint32_t value = 2166136261u ^ device;
    for (; *name; name++)
        value = (value ^ (unsigned char)*name) * 16777619u;
    return value;
}

/* Open addressing. A row that another process is writing is passed over, so a name may have two rows; readers add them up. */
static struct tsr_kernel_row *row_for(struct tsr_machine *machine, uint32_t device, const char *name)
{
    uint32_t rows = TSR_MACHINE_KERNELS - 1, at = hash(device, name) % rows;
    for (uint32_t tried = 0; tried < rows; tried++, at = (at + 1) % rows) {
        struct tsr_kernel_row *row = &machine->kernels[at];
        uint32_t state = __atomic_load_n(&row->state, __ATOMIC_ACQUIRE);
        if (state == ROW_VALID && row_is(row, device, name))
            return row;
        if (state == ROW_FREE &&
            __atomic_compare_exchange_n(&row->state, &state, ROW_WRITING, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            row->device = device;
            strncpy(row->name, name, sizeof row->name - 1);
            __atomic_store_n(&row->state, ROW_VALID, __ATOMIC_RELEASE);
            return row;
        }
    }
    struct tsr_kernel_row *others = &machine->kernels[rows];
    uint32_t state = ROW_FREE;
    if (__atomic_compare_exchange_n(&others->state, &state, ROW_WRITING, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        strncpy(others->name, "(others)", sizeof others->name - 1);
        __atomic_store_n(&others->state, ROW_VALID, __ATOMIC_RELEASE);
    }
    return others;
}

void tsr_live_kernel(struct tsr_machine *machine, uint32_t device, const char *name, uint64_t busy_ns, uint64_t end_ns)
{
    uint32_t number = tsr_machine_number(device);
    struct tsr_device_live *live = &machine->live[number];
    struct tsr_kernel_row *row = row_for(machine, number, name);
    __atomic_add_fetch(&row->launches, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&row->virtual_ns, busy_ns, __ATOMIC_RELAXED);
    __atomic_add_fetch(&live->launches, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&live->busy_ns, busy_ns, __ATOMIC_RELAXED);
    raise_to(&live->last_ns, end_ns);
    raise_to(&machine->virtual_ns, end_ns);
}

void tsr_live_touched(struct tsr_machine *machine, uint32_t device, uint32_t location, uint64_t bytes)
{
    struct tsr_device_live *live = &machine->live[tsr_machine_number(device)];
    if (location < TSR_MACHINE_DEVICES && bytes)
        __atomic_add_fetch(location == device ? &live->local_bytes : &live->remote_bytes, bytes, __ATOMIC_RELAXED);
}

void tsr_live_copy(struct tsr_machine *machine, uint32_t device, uint64_t bytes, uint64_t end_ns)
{
    struct tsr_device_live *live = &machine->live[tsr_machine_number(device)];
    __atomic_add_fetch(&live->copies, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&live->copied_bytes, bytes, __ATOMIC_RELAXED);
    raise_to(&live->last_ns, end_ns);
    raise_to(&machine->virtual_ns, end_ns);
}
