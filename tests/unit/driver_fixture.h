/*
 * For tests of streams, events and graphs without PTX: a machine of two devices in a memory file, and an executor whose kernels are C
 * functions. Including this header replaces the real executor of the program; its kernels run on the engine's thread, once per
 * quantum, until they say that they are done.
 */
#ifndef TESSERA_TESTS_DRIVER_FIXTURE_H
#define TESSERA_TESTS_DRIVER_FIXTURE_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os.h"
#include "emulator/context/context.h"
#include "emulator/exec/exec.h"
#include "emulator/stream/work.h"

struct fake_kernel {
    /* One quantum: true when it has finished; *progress tells whether it got on otherwise. */
    bool (*run)(struct fake_kernel *kernel, bool *progress);
    void *data;
    uint64_t read_bytes; /* of the device's memory, for the clock */
    uint32_t blocks;
    bool fault; /* ends as an illegal access */
};

struct tsr_grid {
    struct fake_kernel *kernel;
    struct tsr_cost cost;
    struct tsr_fault fault;
    bool progress;
};

static const struct tsr_param fake_param = {.offset = 0, .bytes = 8, .align = 8};
static const struct tsr_function fake_function = {
    .name = "fake", .entry = true, .params = &fake_param, .param_count = 1, .param_bytes = 8};

CUresult tsr_grid_create(const struct tsr_grid_desc *desc, struct tsr_grid **out)
{
    struct tsr_grid *grid = calloc(1, sizeof *grid);
    if (!grid)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(&grid->kernel, desc->params, sizeof grid->kernel);
    grid->cost.blocks = grid->kernel->blocks ? grid->kernel->blocks : 1;
    grid->cost.warps = grid->cost.blocks;
    grid->cost.resident_blocks_per_sm = 1;
    grid->cost.dram_read_bytes[desc->device] = grid->kernel->read_bytes;
    grid->fault =
        (struct tsr_fault){.kind = TSR_FAULT_ILLEGAL_ADDRESS, .result = CUDA_ERROR_ILLEGAL_ADDRESS, .function = &fake_function};
    *out = grid;
    return CUDA_SUCCESS;
}

enum tsr_grid_state tsr_grid_run(struct tsr_grid *grid, uint64_t quantum_ns)
{
    (void)quantum_ns;
    grid->progress = true;
    bool done = !grid->kernel->run || grid->kernel->run(grid->kernel, &grid->progress);
    return !done ? TSR_GRID_RUNNING : grid->kernel->fault ? TSR_GRID_FAULT : TSR_GRID_DONE;
}

const struct tsr_cost *tsr_grid_cost(const struct tsr_grid *grid)
{
    return &grid->cost;
}

const struct tsr_fault *tsr_grid_fault(const struct tsr_grid *grid)
{
    return grid->kernel->fault ? &grid->fault : NULL;
}

bool tsr_grid_made_progress(const struct tsr_grid *grid)
{
    return grid->progress;
}

void tsr_grid_blocks(const struct tsr_grid *grid, uint64_t *done, uint64_t *all)
{
    (void)grid;
    *done = *all = 0;
}

void tsr_grid_destroy(struct tsr_grid *grid)
{
    free(grid);
}

void tsr_grid_trace(const struct tsr_grid *grid, tsr_trace_visit *visit, void *ctx)
{
    (void)grid;
    (void)visit;
    (void)ctx;
}

static inline void fixture_device(struct tsr_device_desc *device, unsigned number)
{
    tsr_format(device->name, sizeof device->name, "Test %u", number);
    device->uuid[0] = (uint8_t)(number + 1);
    device->compute_major = 9;
    device->sm_count = 100;
    device->clock_khz = 1000000;
    device->max_threads_per_sm = 2048;
    device->max_blocks_per_sm = 32;
    device->registers_per_sm = 65536;
    device->shared_per_sm_bytes = 233472;
    device->shared_per_block_bytes = 49152;
    device->shared_per_block_optin_bytes = 232448;
    device->memory_bytes = 256u << 20;
    device->memory_bytes_per_s = 1000000000000u;
    device->memory_efficiency_permille = 1000;
    device->copy_engines = 2;
    device->l2_bytes = 32u << 20;
    device->l2_bytes_per_s = 4000000000000u;
    device->launch_latency_ns = 2000;
    device->pci_bus = number + 1;
}

static inline void fixture_describe(struct tsr_machine *machine)
{
    memset(machine, 0, sizeof *machine);
    machine->magic = TSR_MACHINE_MAGIC;
    machine->version = TSR_MACHINE_VERSION;
    machine->bytes = sizeof *machine;
    machine->device_count = 2;
    machine->host_call_ns = 1000;
    machine->worker_threads = 1;
    for (unsigned i = 0; i < 2; i++) {
        fixture_device(&machine->devices[i], i);
        machine->host_links[i] = (struct tsr_link_desc){TSR_LINK_PCIE, 0, 10000000000u, 1000, 0};
        machine->links[i * TSR_MACHINE_DEVICES + (1 - i)] = (struct tsr_link_desc){TSR_LINK_NVLINK, 1, 100000000000u, 1000, 0};
    }
}

/* The machine of this process, current context on device 0. Exits the test program when that is impossible. */
static inline struct tsr_machine *fixture_start(void)
{
    static struct tsr_machine *machine;
    CUcontext context;
    char path[64];
    if (!machine) {
        int descriptor = tsr_os_memfd("machine", sizeof *machine);
        machine = descriptor < 0 ? NULL : tsr_os_map(NULL, sizeof *machine, 3, descriptor, 0);
        if (!machine)
            exit(2);
        fixture_describe(machine);
        tsr_format(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), descriptor);
        setenv("TESSERA_MACHINE", path, 1);
    }
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        exit(2);
    return machine;
}

static inline CUresult fixture_launch(CUstream handle, struct fake_kernel *kernel)
{
    struct tsr_emulated_stream *stream;
    struct tsr_work work = {.kind = TSR_WORK_KERNEL};
    CUresult result = tsr_stream_get(handle, &stream);
    if (result)
        return result;
    struct tsr_context *context = tsr_stream_context(stream);
    work.kernel.desc = (struct tsr_grid_desc){.function = &fake_function,
                                              .grid = {1, 1, 1},
                                              .block = {1, 1, 1},
                                              .cluster = {1, 1, 1},
                                              .device = tsr_emulated_context_device(context),
                                              .sm_count = tsr_context_sm_count(context)};
    work.kernel.param_bytes = malloc(sizeof(uint64_t));
    memcpy(work.kernel.param_bytes, &kernel, sizeof kernel);
    result = tsr_stream_submit(stream, &work);
    tsr_stream_put(stream);
    return result;
}

/* Runs part in a child process that has not used the driver; its exit status, or -1 when it did not end in time. */
static inline int fixture_in_child(int (*part)(void *), void *argument, unsigned seconds)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(seconds);
        exit(part(argument));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

#endif
