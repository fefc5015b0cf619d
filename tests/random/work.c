/* What streams and the CPU do with memory: kernels, copies, memsets, host functions. */
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "program.h"

static const char *const kernel_names[KERNELS] = {"mix_a", "mix_b",  "mix_c",   "fill", "add",
                                                  "turn",  "follow", "scatter", "chase"};

/* Kernels by context: those of the primary contexts stay loaded, others go with their contexts. */
static struct {
    CUcontext context;
    CUfunction functions[KERNELS];
} loaded[3];

bool work_start(CUcontext context, uint32_t place)
{
    CUmodule module;
    CUresult result = cuCtxSetCurrent(context);
    loaded[place].context = context;
    if (result == CUDA_SUCCESS)
        result = cuModuleLoadData(&module, plain_ptx);
    for (uint32_t i = 0; i < KERNELS && result == CUDA_SUCCESS; i++)
        result = cuModuleGetFunction(&loaded[place].functions[i], module, kernel_names[i]);
    return result == CUDA_SUCCESS;
}

CUfunction kernel_of(const struct program *program, uint32_t gpu, enum kernel kernel)
{
    uint32_t place = 0;
    while (place < 2 && loaded[place].context != program->contexts[gpu])
        place++;
    return loaded[place].functions[kernel];
}

static uint32_t fewer(const struct slot *one, const struct slot *other)
{
    return one->words < other->words ? one->words : other->words;
}

static uint32_t draw_block(struct draw *from)
{
    return 32u << draw(from, 4);
}

static CUresult launch(struct worker *worker, CUstream stream, CUfunction function, uint32_t words, uint32_t block,
                       uint32_t shared, void **parameters, struct draw *from)
{
    uint32_t grid = (words + block - 1) / block;
    uint32_t way = uses(worker->program, FEATURE_attributes) ? draw(from, 6) : 5;
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = block,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = shared,
                             .hStream = stream,
                             .attrs = &attribute};
    switch (way) {
    case 0:
        return cuLaunchCooperativeKernel(function, grid, 1, 1, block, 1, 1, shared, stream, parameters);
    case 1:
        config.numAttrs = one_in(from, 2);
        return cuLaunchKernelEx(&config, function, parameters, NULL);
    case 2:
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = grid % 2 ? 1 : 2;
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        config.numAttrs = 1;
        return cuLaunchKernelEx(&config, function, parameters, NULL);
    default:
        return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, parameters, NULL);
    }
}

CUresult launch_mix(struct worker *worker, CUstream stream, uint32_t gpu, const struct slot *to, const struct slot *source,
                    struct draw *from)
{
    CUdeviceptr into = window(to), read = window(source);
    uint32_t words = fewer(to, source), salt = draw(from, 1u << 30), spin = one_in(from, 8) ? draw(from, 800) : draw(from, 10);
    void *parameters[] = {&into, &read, &words, &salt, &spin};
    CUfunction function = kernel_of(worker->program, gpu, MIX_A + draw(from, 3));
    return launch(worker, stream, function, words, draw_block(from), 0, parameters, from);
}

/* A stream and two items for a kernel: mostly on GPU 0. */
static bool draw_operands(struct worker *worker, struct draw *from, uint32_t *stream, struct slot **to, struct slot **source)
{
    bool peer = uses(worker->program, FEATURE_peer) && one_in(from, 6);
    *stream = peer ? OTHER : draw_stream(worker, from);
    *to = pick_slot(worker, from, peer ? FOR_GPU_1 : FOR_KERNELS, NULL);
    *source = pick_slot(worker, from, peer ? FOR_GPU_1 : FOR_KERNELS, *to);
    return *to && *source;
}

void op_launch(struct worker *worker, struct draw *from)
{
    struct slot *to, *source;
    uint32_t stream;
    if (!draw_operands(worker, from, &stream, &to, &source))
        return;
    say(worker, "launch: slot %u from slot %u, %s", slot_number(worker, to), slot_number(worker, source), stream_name(stream));
    order(worker, &source->sync, stream, false, from);
    order(worker, &to->sync, stream, true, from);
    enter(worker, stream);
    CU(launch_mix(worker, stream_of(worker, stream), stream == OTHER, to, source, from));
    enter(worker, LEGACY);
}

void op_fill(struct worker *worker, struct draw *from)
{
    struct slot *to = pick_slot(worker, from, FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from), salt = draw(from, 1u << 30);
    if (!to)
        return;
    CUdeviceptr into = window(to);
    void *parameters[] = {&into, &to->words, &salt};
    say(worker, "fill: slot %u, %s", slot_number(worker, to), stream_name(stream));
    order(worker, &to->sync, stream, true, from);
    CU(launch(worker, stream_of(worker, stream), kernel_of(worker->program, 0, FILL), to->words, draw_block(from), 0,
              parameters, from));
}

void op_add(struct worker *worker, struct draw *from)
{
    struct slot *to, *source;
    uint32_t stream, salt = draw(from, 1000);
    if (!draw_operands(worker, from, &stream, &to, &source))
        return;
    CUdeviceptr into = window(to), read = window(source);
    uint32_t words = fewer(to, source);
    void *parameters[] = {&into, &read, &words, &salt};
    say(worker, "add: slot %u from slot %u, %s", slot_number(worker, to), slot_number(worker, source), stream_name(stream));
    order(worker, &source->sync, stream, false, from);
    order(worker, &to->sync, stream, true, from);
    enter(worker, stream);
    CU(launch(worker, stream_of(worker, stream), kernel_of(worker->program, stream == OTHER, ADD), words, draw_block(from), 0,
              parameters, from));
    enter(worker, LEGACY);
}

/* As far as anybody can tell from the kernel, it may touch all of both allocations. */
void op_scatter(struct worker *worker, struct draw *from)
{
    struct slot *to = pick_slot(worker, from, FOR_KERNELS, NULL), *source = pick_slot(worker, from, FOR_KERNELS, to);
    uint32_t stream = draw_stream(worker, from), salt = draw(from, 1000), spin = draw(from, one_in(from, 4) ? 400 : 10);
    if (!to || !source || !uses(worker->program, FEATURE_scatter))
        return;
    CUdeviceptr into = window(to), read = window(source);
    uint32_t words = fewer(to, source);
    void *parameters[] = {&into, &read, &words, &salt, &spin};
    say(worker, "scatter: slot %u from slot %u, %s", slot_number(worker, to), slot_number(worker, source), stream_name(stream));
    order(worker, &source->sync, stream, false, from);
    order(worker, &to->sync, stream, true, from);
    CU(launch(worker, stream_of(worker, stream), kernel_of(worker->program, 0, SCATTER), words, draw_block(from), 0, parameters,
              from));
}

void op_turn(struct worker *worker, struct draw *from)
{
    struct slot *to = pick_slot(worker, from, FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from), block = 32u << draw(from, 2);
    if (!to)
        return;
    CUdeviceptr into = window(to);
    void *parameters[] = {&into, &to->words};
    say(worker, "turn: slot %u, %s", slot_number(worker, to), stream_name(stream));
    order(worker, &to->sync, stream, true, from);
    CU(launch(worker, stream_of(worker, stream), kernel_of(worker->program, 0, TURN), to->words, block, 4 * block, parameters,
              from));
}

/* Copies. Any memory is named by one address; what only the CPU has, by its own. */

static CUdeviceptr unified(const struct slot *slot)
{
    return slot->base ? window(slot) : (CUdeviceptr)(uintptr_t)cpu_window(slot);
}

static CUresult copy_bytes(struct worker *worker, const struct slot *to, const struct slot *source, size_t offset, size_t bytes,
                           CUstream stream, struct draw *from)
{
    CUcontext *contexts = worker->program->contexts;
    CUdeviceptr into = unified(to) + offset, read = unified(source) + offset;
    if (one_in(from, 2))
        return cuMemcpyAsync(into, read, bytes, stream);
    if (!to->base)
        return source->base ? cuMemcpyDtoHAsync((char *)cpu_window(to) + offset, read, bytes, stream)
                            : cuMemcpyAsync(into, read, bytes, stream);
    if (!source->base || (source->host && one_in(from, 2)))
        return cuMemcpyHtoDAsync(into, (char *)cpu_window(source) + offset, bytes, stream);
    if (is_peer(to) != is_peer(source))
        return cuMemcpyPeerAsync(into, contexts[is_peer(to)], read, contexts[is_peer(source)], bytes, stream);
    return cuMemcpyDtoDAsync(into, read, bytes, stream);
}

/* Pageable memory may be read when the copy is called for. */
static void order_copy(struct worker *worker, struct slot *to, struct slot *source, uint32_t stream, struct draw *from)
{
    if (!source->base)
        host_wait(worker, &source->sync, false, from);
    order(worker, &source->sync, stream, false, from);
    order(worker, &to->sync, stream, true, from);
}

static bool draw_copy(struct worker *worker, struct draw *from, struct slot **to, struct slot **source)
{
    *to = pick_slot(worker, from, 0, NULL);
    *source = pick_slot(worker, from, 0, *to);
    return *to && *source && uses(worker->program, FEATURE_copies);
}

/* What the program has mapped, only its own GPU may access. */
static uint32_t copy_stream(struct worker *worker, const struct slot *to, const struct slot *source, struct draw *from)
{
    uint32_t stream = draw_stream(worker, from);
    bool other = (is_peer(to) || is_peer(source)) && ((is_peer(to) && is_peer(source)) || one_in(from, 2));
    return other && !is_mapped(to) && !is_mapped(source) ? OTHER : stream;
}

void op_copy(struct worker *worker, struct draw *from)
{
    struct slot *to, *source;
    if (!draw_copy(worker, from, &to, &source))
        return;
    uint32_t stream = copy_stream(worker, to, source, from), words = fewer(to, source);
    size_t first = one_in(from, 2) ? 0 : draw(from, words / 2), count = first ? words / 2 : words;
    say(worker, "copy: slot %u from slot %u, %zu words at %zu, %s", slot_number(worker, to), slot_number(worker, source), count,
        first, stream_name(stream));
    order_copy(worker, to, source, stream, from);
    enter(worker, stream);
    CU(copy_bytes(worker, to, source, 4 * first, 4 * count, stream_of(worker, stream), from));
    enter(worker, LEGACY);
}

/* The functions without a stream: the legacy one is theirs. */
void op_copy_now(struct worker *worker, struct draw *from)
{
    struct slot *to, *source;
    if (!draw_copy(worker, from, &to, &source))
        return;
    size_t bytes = 4 * fewer(to, source);
    CUdeviceptr into = unified(to), read = unified(source);
    say(worker, "copy now: slot %u from slot %u", slot_number(worker, to), slot_number(worker, source));
    order_copy(worker, to, source, LEGACY, from);
    if (to->host && source->base && !source->host) {
        CU(cuMemcpyDtoH(cpu_window(to), read, bytes));
        to->sync.writer = NO_STREAM; /* complete */
    } else if (to->base && source->host && one_in(from, 2)) {
        CU(cuMemcpyHtoD(into, cpu_window(source), bytes));
    } else if (to->base && source->base && is_peer(to) != is_peer(source)) {
        CU(cuMemcpyPeer(into, worker->program->contexts[is_peer(to)], read, worker->program->contexts[is_peer(source)], bytes));
    } else {
        CU(cuMemcpy(into, read, bytes));
    }
}

static void side(const struct slot *slot, CUmemorytype *type, CUdeviceptr *device, const void **host)
{
    *type = slot->base ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    *device = slot->base ? window(slot) : 0;
    *host = slot->base ? NULL : cpu_window(slot);
}

/* Rows of 64 bytes, of which a part is copied. */
void op_rows(struct worker *worker, struct draw *from)
{
    struct slot *to, *source;
    if (!draw_copy(worker, from, &to, &source))
        return;
    uint32_t stream = copy_stream(worker, to, source, from);
    const void *into = NULL;
    CUDA_MEMCPY2D copy = {.srcPitch = 64,
                          .dstPitch = 64,
                          .srcXInBytes = 4 * draw(from, 4),
                          .WidthInBytes = 4 * (1 + draw(from, 12)),
                          .Height = fewer(to, source) / 16};
    side(source, &copy.srcMemoryType, &copy.srcDevice, &copy.srcHost);
    side(to, &copy.dstMemoryType, &copy.dstDevice, &into);
    copy.dstHost = (void *)(uintptr_t)into;
    say(worker, "rows: slot %u from slot %u, %s", slot_number(worker, to), slot_number(worker, source), stream_name(stream));
    order_copy(worker, to, source, stream, from);
    enter(worker, stream);
    CU(cuMemcpy2DAsync(&copy, stream_of(worker, stream)));
    enter(worker, LEGACY);
}

static CUresult set(CUdeviceptr to, uint32_t words, uint32_t value, CUstream stream, struct draw *from)
{
    switch (draw(from, 4)) {
    case 0:
        return cuMemsetD8Async(to, (unsigned char)value, 4 * words, stream);
    case 1:
        return cuMemsetD16Async(to, (unsigned short)value, 2 * words, stream);
    case 2:
        return cuMemsetD32Async(to, value, words, stream);
    default:
        return cuMemsetD2D32Async(to, 64, value, 1 + draw(from, 15), words / 16, stream);
    }
}

void op_set(struct worker *worker, struct draw *from)
{
    struct slot *to = pick_slot(worker, from, FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from), value = draw(from, 1u << 30);
    if (!to)
        return;
    bool now = one_in(from, 4);
    stream = now ? LEGACY : stream;
    say(worker, "set%s: slot %u, %s", now ? " now" : "", slot_number(worker, to), stream_name(stream));
    order(worker, &to->sync, stream, true, from);
    CU(now ? cuMemsetD32(window(to), value, to->words) : set(window(to), to->words, value, stream_of(worker, stream), from));
}

/* The CPU reads and writes. */

static void mix_on_cpu(uint32_t *words, uint32_t count, uint32_t salt)
{
    for (uint32_t i = 0; i < count; i++)
        words[i] = words[i] * 7 + salt + i;
}

void op_read(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, 0, NULL);
    if (!slot)
        return;
    say(worker, "read: slot %u", slot_number(worker, slot));
    worker->digest = slot_digest(worker, slot, worker->digest);
}

void op_write(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, FOR_CPU, NULL);
    if (!slot)
        return;
    say(worker, "write: slot %u", slot_number(worker, slot));
    host_wait(worker, &slot->sync, true, from);
    mix_on_cpu(cpu_window(slot), slot->words, draw(from, 1u << 30));
}

struct note {
    struct note *next;
    uint32_t *words, count, salt;
};

static void CUDA_CB host_function(void *data)
{
    const struct note *note = data;
    mix_on_cpu(note->words, note->count, note->salt);
}

void op_hostfunc(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, FOR_CPU, NULL);
    uint32_t stream = draw_stream(worker, from);
    struct note *note = malloc(sizeof *note);
    if (!slot || !note || !uses(worker->program, FEATURE_hostfunc)) {
        free(note);
        return;
    }
    *note = (struct note){worker->notes, cpu_window(slot), slot->words, draw(from, 1u << 30)};
    worker->notes = note;
    say(worker, "host function: slot %u, %s", slot_number(worker, slot), stream_name(stream));
    order(worker, &slot->sync, stream, true, from);
    CU(cuLaunchHostFunc(stream_of(worker, stream), host_function, note));
}

void notes_end(struct worker *worker)
{
    for (struct note *note = worker->notes; note;) {
        struct note *next = note->next;
        free(note);
        note = next;
    }
    worker->notes = NULL;
}
