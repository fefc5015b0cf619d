/*
 * Times what the shim does to find the ranges of launches, in their order: the scan for memory that only exists at home, and tsr_predict with the
 * address map; for scripts/bench/evaluator, which links it with the native build. The driver and the table of templates are stood in for.
 *
 *     predict_times FILE first|again > TIMES
 *
 * FILE and TIMES as evaluator_times has them; of a launch whose ranges are not known the level is 3, of all others 0, and nothing is told of
 * the memo. Evaluators are made before the launches, as they are when templates are published. again: after a run like it, whose launches are
 * remembered. Allocations are put into the map before the launch that uses them, outside of the time.
 */
#include "launch/predict.c"
#include "memory/address_map.c"
#include "memory/home_only.c"

#include "timed_file.h"

#include "launch/launch.h"

struct tsr_real tsr_real;
static struct tsr_policy policy;
static struct tsr_session session = {.policy = &policy};
static const uint32_t none_published;
uint8_t tsr_templates_kinds[TSR_TEMPLATE_GPUS];
const uint32_t *tsr_templates_published = &none_published;
uint32_t tsr_templates_distrusted;

struct tsr_session *tsr_session(void)
{
    return &session;
}

uint64_t tsr_registry_epoch(void)
{
    return 1;
}

const void *tsr_template_search(struct tsr_template_link *link, uint32_t kind)
{
    (void)link, (void)kind;
    return NULL;
}

bool tsr_template_is_distrusted(const void *template)
{
    (void)template;
    return false;
}

void tsr_template_distrust(const void *template)
{
    (void)template;
}

struct tsr_function_record *tsr_function_find(const void *handle)
{
    (void)handle;
    return NULL;
}

void tsr_functions_each(void (*visit)(uint64_t handle, void *function, void *argument), void *argument)
{
    (void)visit, (void)argument;
}

CUresult tsr_module_locate(const struct tsr_module_record *module, const char *variable, CUdeviceptr *address, size_t *bytes)
{
    (void)module, (void)variable, (void)address, (void)bytes;
    return CUDA_ERROR_NOT_FOUND;
}

struct tsr_library_operands tsr_library_operands_now(void)
{
    return (struct tsr_library_operands){.count = -1};
}

void tsr_call_ranges(const struct tsr_library_operands *call, const struct tsr_access_launch *launch,
                     struct tsr_access_result *result)
{
    (void)call, (void)launch, (void)result;
}

void tsr_call_ranges_distrust(void)
{
}

void tsr_copies_look_again(void)
{
}

void tsr_call_ranges_refine(const struct tsr_library_operands *call, const struct tsr_access_launch *launch,
                            struct tsr_access_result *result)
{
    (void)call, (void)launch, (void)result;
}

uint32_t tsr_tensor_map_ranges(const void *map, enum tsr_access_kind kind, struct tsr_access_range each[TSR_BOX_RANGES])
{
    (void)map, (void)kind, (void)each;
    return 0;
}

static CUresult push(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    (void)context;
    return CUDA_SUCCESS;
}

/* Another allocation that it overlaps is gone by now. */
static void note_allocation(uint64_t begin, uint64_t end)
{
    uint64_t first, last;
    if (tsr_address_find_range(begin, &first, &last) && first == begin && last == end)
        return;
    for (uint64_t at = begin; at < end; at = (at / 512 + 1) * 512)
        if (tsr_address_find_range(at, &first, &last))
            tsr_address_remove(first, true);
    tsr_address_add(begin, end - begin, true);
}

static void time_launch(struct tsr_function_record *functions, const char **at, uint64_t clock, bool tells)
{
    static struct tsr_prediction prediction;
    static struct tsr_gathered gathered = {.done = true};
    static struct tsr_stream stream;
    struct tsr_launch launch = {.known = &functions[next(at)], .gathered = &gathered, .place = {.stream = &stream}};
    for (int i = 0; i < 3; i++)
        launch.grid[i] = next(at);
    for (int i = 0; i < 3; i++)
        launch.block[i] = next(at);
    gathered.bytes = next(at);
    memcpy(gathered.values, *at, gathered.bytes < TSR_PARAMETER_BYTES ? gathered.bytes : TSR_PARAMETER_BYTES);
    *at += gathered.bytes;
    uint64_t ends[2];
    for (uint32_t left = next(at); left > 0; left--, *at += sizeof ends) {
        memcpy(ends, *at, sizeof ends);
        note_allocation(ends[0], ends[1]);
    }
    uint64_t begin = now_ns();
    enum tsr_reason reason = tsr_home_only_scan(gathered.values, gathered.bytes);
    tsr_predict(&launch, &prediction);
    uint64_t passed = now_ns() - begin;
    if (!tells)
        return;
    printf("%lu %u 0 0 %u\n", passed > clock ? passed - clock : 0, prediction.source == TSR_SOURCE_NONE || reason ? 3u : 0u,
           prediction.count);
}

/* As when it is published. A run's templates lie elsewhere than another's. */
static void publish(struct tsr_function_record *function, const char *bytes, uint32_t size, uint32_t number)
{
    void *template = aligned_alloc(64, (size + 63) / 64 * 64);
    memcpy(template, bytes, size);
    function->template = (struct tsr_template_link){.code = 1, .function = number};
    function->template.places[0].found = template;
    function->template.places[0].bytes = size;
    tsr_evaluator_of(&function->template, template, size);
}

static void run(const char *at, uint64_t clock, bool tells)
{
    uint32_t count = next(&at);
    struct tsr_function_record *functions = calloc(count, sizeof *functions);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = next(&at);
        publish(&functions[i], at, size, i);
        at += size;
    }
    for (uint32_t left = next(&at); left > 0; left--)
        time_launch(functions, &at, clock, tells);
}

/* Where launches are kept from run to run. */
static bool start_shapes(void)
{
    char path[64];
    int file = tsr_os_memfd("templates", TSR_TEMPLATES_BYTES);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    tsr_shapes_start(path);
    return file >= 0;
}

int main(int argc, char **argv)
{
    const char *at = argc == 3 ? read_file(argv[1]) : NULL;
    if (!at || !start_shapes())
        return 2;
    tsr_real.cuCtxPushCurrent_v2 = push;
    tsr_real.cuCtxPopCurrent_v2 = pop;
    memset(scratch(), 1, TSR_ACCESS_SCRATCH_BYTES);                                /* its pages are there */
    tsr_home_only_add(0x7f0000000000 - 0x1000, 0x1000, TSR_REASON_MEMORY_MANAGED); /* so that the scan has to look */
    uint64_t clock = clock_ns();
    if (strcmp(argv[2], "again") == 0)
        run(at, clock, false);
    run(at, clock, true);
    return 0;
}
