#include "run.h"

#include "../machine/clock.h"
#include "../machine/live.h"
#include "../memory/describe.h"
#include "base/demangle.h"
#include "base/format.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "copy.h"
#include "engine.h"
#include "event_object.h"
#include "event_share.h"
#include "stream_object.h"
#include "value.h"

static uint64_t grids; /* engine thread only */
static tsr_grid_observer *observer;

void tsr_engine_observe_grids(tsr_grid_observer *chosen)
{
    observer = chosen;
}

static void report_fault(const struct tsr_item *item)
{
    const struct tsr_fault *fault = tsr_grid_fault(item->grid);
    const char *kernel = TSR_KERNEL_NAME(item->work.kernel.desc.function->name);
    char thread[96], where[192] = "";
    if (!fault)
        return;
    tsr_format(thread, sizeof thread, "block (%u,%u,%u), thread (%u,%u,%u)", fault->block[0], fault->block[1], fault->block[2],
               fault->thread[0], fault->thread[1], fault->thread[2]);
    if (!fault->bytes) {
        tsr_error("kernel %s, PTX line %u, %s: error %d", kernel, fault->line, thread, (int)fault->result);
        return;
    }
    tsr_address_describe(fault->address, item->work.kernel.desc.device, where, sizeof where);
    tsr_error("kernel %s, PTX line %u, %s: error %d at a %s of %u bytes at 0x%llx, %s", kernel, fault->line, thread,
              (int)fault->result, fault->write ? "write" : "read", fault->bytes, (unsigned long long)fault->address, where);
}

static bool start(struct tsr_item *item)
{
    struct tsr_grid_desc *desc = &item->work.kernel.desc;
    desc->params = item->work.kernel.param_bytes;
    desc->start_ns = item->ready_ns;
    desc->grid_id = ++grids;
    desc->space = desc->space ? desc->space : tsr_space_instance();
    item->started_real_ns = item->begun_real_ns = tsr_os_monotonic_ns();
    CUresult result = tsr_grid_create(desc, &item->grid);
    if (!result)
        return true;
    item->grid = NULL;
    tsr_error("kernel %s could not be started: error %d", TSR_KERNEL_NAME(desc->function->name), (int)result);
    tsr_context_fail(item->work.context, result);
    return false;
}

/* Names, once, a kernel that takes so long that somebody may ask what happens. */
static void report_slow(struct tsr_item *item)
{
    const struct tsr_grid_desc *desc = &item->work.kernel.desc;
    uint64_t slow_ms = tsr_options()->slow_ms, done, blocks;
    if (!item->begun_real_ns || !slow_ms || tsr_os_monotonic_ns() - item->begun_real_ns < slow_ms * 1000000)
        return;
    item->begun_real_ns = 0;
    tsr_grid_blocks(item->grid, &done, &blocks);
    tsr_warn("kernel %s has been running on emulated GPU %u for %llu ms: %llu of %llu blocks are done; %s",
             TSR_KERNEL_NAME(desc->function->name), desc->device, (unsigned long long)slow_ms, (unsigned long long)done,
             (unsigned long long)blocks,
             tsr_grid_made_progress(item->grid)
                 ? "emulated GPUs are thousands of times slower than real ones, try smaller inputs"
                 : "the others wait for something to be written to memory");
}

static void count_touched(struct tsr_machine *machine, uint32_t device, const struct tsr_cost *cost)
{
    for (uint32_t location = 0; location < TSR_MACHINE_DEVICES; location++)
        tsr_live_touched(machine, device, location, cost->dram_read_bytes[location] + cost->dram_write_bytes[location]);
}

static uint64_t place_kernel(struct tsr_item *item)
{
    const struct tsr_grid_desc *desc = &item->work.kernel.desc;
    struct tsr_machine *machine = tsr_machine_instance();
    struct tsr_kernel_time time = tsr_clock_kernel(machine, desc->device, desc->sm_count, tsr_grid_cost(item->grid));
    time.ns = tsr_clock_slowed_ns(machine, desc->device, time.ns, item->ready_ns);
    uint64_t start_ns = tsr_timeline_place_kernel(tsr_engine_timeline(), desc->device, time, item->ready_ns);
    tsr_live_kernel(machine, desc->device, desc->function->name, time.ns, start_ns + time.ns);
    count_touched(machine, desc->device, tsr_grid_cost(item->grid));
    tsr_debug("kernel %s on device %u: %llu to %llu ns, bound by %s", desc->function->name, desc->device,
              (unsigned long long)start_ns, (unsigned long long)(start_ns + time.ns), time.bound);
    return start_ns + time.ns;
}

enum tsr_grid_state tsr_run_kernel(struct tsr_item *item, uint64_t quantum_ns, uint64_t *end_ns)
{
    if (!item->grid && !start(item))
        return TSR_GRID_FAULT;
    enum tsr_grid_state state = tsr_grid_run(item->grid, quantum_ns);
    if (state == TSR_GRID_RUNNING) {
        report_slow(item);
        return state;
    }
    if (observer)
        observer(&item->work, item->grid);
    if (state == TSR_GRID_FAULT) {
        const struct tsr_fault *fault = tsr_grid_fault(item->grid);
        report_fault(item);
        tsr_context_fail(item->work.context, fault ? fault->result : CUDA_ERROR_LAUNCH_FAILED);
    } else {
        *end_ns = place_kernel(item);
        tsr_value_progress(*end_ns);
    }
    return state;
}

/* Drivers whose copies between GPUs are wrong exist, and say nothing. */
static bool is_corrupted(const struct tsr_machine *machine, const struct tsr_copy_places *places)
{
    return places->from < TSR_MACHINE_DEVICES && places->to < TSR_MACHINE_DEVICES &&
           machine->links[places->from * TSR_MACHINE_DEVICES + places->to].corrupts;
}

static uint64_t run_copy(const struct tsr_work *work, uint64_t ready_ns)
{
    struct tsr_machine *machine = tsr_machine_instance();
    struct tsr_copy_places places;
    CUresult result = tsr_copy_check(&work->copy.shape, NULL, &places);
    if (!result)
        result = tsr_copy_run(&work->copy.shape, work->copy.staging);
    if (!result && is_corrupted(machine, &places))
        tsr_copy_corrupt(&work->copy.shape);
    if (result) {
        tsr_error("a copy between memory that no longer exists");
        tsr_context_fail(work->context, CUDA_ERROR_ILLEGAL_ADDRESS);
        return ready_ns;
    }
    if (!places.bytes)
        return ready_ns;
    uint64_t ns =
        tsr_clock_copy_ns(machine, places.from, places.to, places.bytes, !(places.from_pageable | places.to_pageable));
    uint64_t end_ns = ns + tsr_timeline_place_copy(tsr_engine_timeline(), places.from, places.to, ns, ready_ns);
    if (places.to < TSR_LOCATION_HOST || places.from < TSR_LOCATION_HOST) /* counted, as launches are, on the stream's GPU */
        tsr_live_copy(machine, tsr_emulated_context_device(work->context), places.bytes, end_ns);
    return end_ns;
}

static uint64_t run_memset(const struct tsr_work *work, uint64_t ready_ns)
{
    struct tsr_machine *machine = tsr_machine_instance();
    uint64_t bytes = (uint64_t)work->memset.width * work->memset.element_bytes * work->memset.height;
    uint32_t location;
    CUresult result = tsr_memset_run(work);
    if (result) {
        tsr_error("a memset of memory that no longer exists: 0x%llx", (unsigned long long)work->memset.dst);
        tsr_context_fail(work->context, result);
        return ready_ns;
    }
    if (!bytes)
        return ready_ns;
    tsr_memset_check(work->memset.dst, 0, 1, 1, NULL, &location);
    uint64_t ns = tsr_clock_memset_ns(machine, location, bytes);
    if (location >= TSR_MACHINE_DEVICES)
        return ready_ns + ns;
    ns = tsr_clock_slowed_ns(machine, location, ns, ready_ns);
    struct tsr_kernel_time time = {ns, 100, "memory"};
    return ns + tsr_timeline_place_kernel(tsr_engine_timeline(), location, time, ready_ns);
}

void tsr_run_plain(struct tsr_item *item, bool run, uint64_t *end_ns)
{
    const struct tsr_work *work = &item->work;
    if (work->kind == TSR_WORK_CALL) {
        work->call.fn(work->call.data, run);
        item->work.call.fn = NULL; /* told; releasing the work must not tell it again */
    } else if (run && work->kind == TSR_WORK_COPY) {
        *end_ns = run_copy(work, item->ready_ns);
    } else if (run && work->kind == TSR_WORK_MEMSET) {
        *end_ns = run_memset(work, item->ready_ns);
    }
    if (run)
        tsr_value_progress(*end_ns);
}

bool tsr_run_poll(struct tsr_item *item, uint64_t *end_ns)
{
    if (item->work.kind == TSR_WORK_VALUES)
        return tsr_values_advance(&item->work, &item->ready_ns, end_ns);
    uint64_t ns;
    if (!tsr_event_share_done(item->work.event.event->share, item->awaited, &ns))
        return false;
    *end_ns = ns > item->ready_ns ? ns : item->ready_ns;
    return true;
}
