/*
 * Operands of cuFFT's calls. A plan does not tell its sizes, so they are remembered from when it was made; a plan that nobody saw being
 * made, or that calls functions of the application, has unknown operands.
 */
#include <pthread.h>

#include "calls/entries.h"
#include "calls/types.h"

#define MOST_PLANS 4096u /* a power of two; cuFFT numbers plans from 0 or 1 on */
#define DIMENSIONS 3u

struct side {     /* of the input or the output */
    int32_t type; /* cudaDataType */
    bool dense;   /* the sizes of the transform say how it lies; else the following */
    int64_t embed[DIMENSIONS], stride, distance;
};

struct plan {
    bool known;
    uint32_t handle, rank;
    int64_t sizes[DIMENSIONS], batch;
    struct side input, output;
    uint64_t work_area; /* given by the application */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan plans[MOST_PLANS]; /* lock; a newer plan takes the place of one with the same last digits */

static struct plan *place_of(uint32_t handle)
{
    return &plans[handle % MOST_PLANS];
}

static bool is_complex(int32_t type)
{
    return type == CUDA_C_32F || type == CUDA_C_64F || type == CUDA_C_16F || type == CUDA_C_16BF;
}

/* Elements of a real-to-complex transform's complex side in the last dimension. */
static uint64_t extent(const struct plan *plan, const struct side *side, uint32_t dimension)
{
    bool half = dimension + 1 == plan->rank && is_complex(side->type) &&
                !(is_complex(plan->input.type) && is_complex(plan->output.type));
    int64_t size = half ? plan->sizes[dimension] / 2 + 1 : plan->sizes[dimension];
    return size > 0 ? (uint64_t)size : 0;
}

/* In place, the real side of a transform between real and complex numbers has room for the complex side in each of its rows. */
static void add(struct tsr_operands *operands, enum tsr_operand_access access, const struct plan *plan, const struct side *side,
                uint64_t address, bool in_place)
{
    uint64_t bytes = tsr_type_bits(side->type) / 8;
    bool padded = in_place && !is_complex(side->type);
    struct tsr_box box = {.address = address, .element_bytes = bytes, .axes = plan->rank + 1};
    uint64_t step = side->dense ? bytes : bytes * (uint64_t)side->stride;
    for (uint32_t i = plan->rank; i-- > 0;) {
        box.extents[i] = extent(plan, side, i);
        box.strides[i] = step;
        uint64_t size = side->dense ? box.extents[i] : (uint64_t)side->embed[i];
        if (side->dense && padded && i + 1 == plan->rank)
            size = 2 * (box.extents[i] / 2 + 1);
        step *= size;
    }
    box.extents[plan->rank] = plan->batch > 0 ? (uint64_t)plan->batch : 0;
    box.strides[plan->rank] = side->dense ? step : bytes * (uint64_t)side->distance;
    tsr_operands_add_box(operands, access, &box);
}

/* UINT64_MAX: not known. */
static uint64_t work_bytes(const struct tsr_arguments *arguments)
{
    static void *known;
    int (*get)(int plan, size_t *bytes) = tsr_call_function(arguments->call, "cufftGetSize", &known);
    size_t bytes = 0;
    return get && get(tsr_argument_int(arguments, 1), &bytes) == 0 ? bytes : UINT64_MAX;
}

void tsr_fft_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands)
{
    uint32_t handle = (uint32_t)tsr_argument_int(arguments, 1);
    pthread_mutex_lock(&lock);
    struct plan plan = *place_of(handle);
    pthread_mutex_unlock(&lock);
    if (!plan.known || plan.handle != handle) {
        tsr_operands_unknown(operands, "a plan whose sizes are not known");
        return;
    }
    uint64_t input = tsr_argument(arguments, 2), output = tsr_argument(arguments, 3);
    add(operands, TSR_OPERAND_BOTH, &plan, &plan.input, input, input == output); /* complex to real may overwrite it */
    add(operands, TSR_OPERAND_OVERWRITTEN, &plan, &plan.output, output, input == output);
    uint64_t bytes = plan.work_area ? work_bytes(arguments) : 0;
    if (bytes == UINT64_MAX)
        tsr_operands_add_whole(operands, TSR_OPERAND_BOTH, plan.work_area);
    else
        tsr_operands_add_bytes(operands, TSR_OPERAND_SCRATCH, plan.work_area, bytes);
}

/* ---- plans ---- */

static bool set_type(struct plan *plan, int32_t type)
{
    static const struct {
        int32_t type, input, output;
    } types[] = {{CUFFT_C2C, CUDA_C_32F, CUDA_C_32F}, {CUFFT_R2C, CUDA_R_32F, CUDA_C_32F}, {CUFFT_C2R, CUDA_C_32F, CUDA_R_32F},
                 {CUFFT_Z2Z, CUDA_C_64F, CUDA_C_64F}, {CUFFT_D2Z, CUDA_R_64F, CUDA_C_64F}, {CUFFT_Z2D, CUDA_C_64F, CUDA_R_64F}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == type) {
            plan->input.type = types[i].input;
            plan->output.type = types[i].output;
            return true;
        }
    return false;
}

/* A plan for rank sizes, one after the other among the arguments, then the type; one-dimensional plans have a batch after it. */
static bool read_plain(const struct tsr_arguments *arguments, uint32_t rank, struct plan *plan)
{
    plan->rank = rank;
    for (uint32_t i = 0; i < rank; i++)
        plan->sizes[i] = tsr_argument_int(arguments, 2 + i);
    plan->batch = rank == 1 ? tsr_argument_int(arguments, 4) : 1;
    plan->input.dense = plan->output.dense = true;
    return set_type(plan, tsr_argument_int(arguments, 2 + rank));
}

static int64_t element(uint64_t array, uint32_t index, bool wide)
{
    return wide ? ((const long long *)array)[index] : ((const int *)array)[index];
}

/* embed, stride and distance are the arguments from `position` on; without embed the others mean nothing. */
static void read_side(const struct tsr_arguments *arguments, uint32_t position, bool wide, uint32_t rank, struct side *side)
{
    uint64_t embed = tsr_argument(arguments, position);
    side->dense = embed == 0;
    for (uint32_t i = 0; embed && i < rank; i++)
        side->embed[i] = element(embed, i, wide);
    side->stride = wide ? (int64_t)tsr_argument(arguments, position + 1) : tsr_argument_int(arguments, position + 1);
    side->distance = wide ? (int64_t)tsr_argument(arguments, position + 2) : tsr_argument_int(arguments, position + 2);
}

/* (plan, rank, sizes, input side, input type if `typed`, output side, type, batch, ...) */
static bool read_many(const struct tsr_arguments *arguments, bool wide, bool typed, struct plan *plan)
{
    plan->rank = (uint32_t)tsr_argument_int(arguments, 2);
    uint64_t sizes = tsr_argument(arguments, 3);
    if (plan->rank < 1 || plan->rank > DIMENSIONS || !sizes)
        return false;
    for (uint32_t i = 0; i < plan->rank; i++)
        plan->sizes[i] = element(sizes, i, wide);
    uint32_t output = typed ? 8 : 7, type = output + 3;
    read_side(arguments, 4, wide, plan->rank, &plan->input);
    read_side(arguments, output, wide, plan->rank, &plan->output);
    if (plan->input.dense || plan->output.dense) /* one without embed makes both dense */
        plan->input.dense = plan->output.dense = true;
    plan->batch = wide ? (int64_t)tsr_argument(arguments, type + 1) : tsr_argument_int(arguments, type + 1);
    if (!typed)
        return set_type(plan, tsr_argument_int(arguments, type));
    plan->input.type = tsr_argument_int(arguments, 7);
    plan->output.type = tsr_argument_int(arguments, type);
    return tsr_type_bits(plan->input.type) && tsr_type_bits(plan->output.type);
}

static bool read_plan(const struct tsr_arguments *arguments, struct plan *plan)
{
    switch (arguments->call) {
    case TSR_CALL_cufftPlan1d:
    case TSR_CALL_cufftMakePlan1d:
        return read_plain(arguments, 1, plan);
    case TSR_CALL_cufftPlan2d:
    case TSR_CALL_cufftMakePlan2d:
        return read_plain(arguments, 2, plan);
    case TSR_CALL_cufftPlan3d:
    case TSR_CALL_cufftMakePlan3d:
        return read_plain(arguments, 3, plan);
    case TSR_CALL_cufftPlanMany:
    case TSR_CALL_cufftMakePlanMany:
        return read_many(arguments, false, false, plan);
    case TSR_CALL_cufftMakePlanMany64:
        return read_many(arguments, true, false, plan);
    default:
        return read_many(arguments, true, true, plan);
    }
}

static bool plan_is_made_first(uint32_t call)
{
    return call == TSR_CALL_cufftPlan1d || call == TSR_CALL_cufftPlan2d || call == TSR_CALL_cufftPlan3d ||
           call == TSR_CALL_cufftPlanMany;
}

static void change(uint32_t handle, void (*how)(struct plan *plan, uint64_t value), uint64_t value)
{
    pthread_mutex_lock(&lock);
    if (place_of(handle)->handle == handle)
        how(place_of(handle), value);
    pthread_mutex_unlock(&lock);
}

static void forget(struct plan *plan, uint64_t value)
{
    (void)value;
    plan->known = false;
}

static void give_work_area(struct plan *plan, uint64_t value)
{
    plan->work_area = value;
}

void tsr_fft_note(const struct tsr_arguments *arguments)
{
    uint32_t handle = (uint32_t)tsr_argument_int(arguments, 1);
    if (arguments->call == TSR_CALL_cufftDestroy || arguments->call == TSR_CALL_cufftXtSetCallback ||
        arguments->call == TSR_CALL_cufftXtSetJITCallback) {
        change(handle, forget, 0);
    } else if (arguments->call == TSR_CALL_cufftSetWorkArea) {
        change(handle, give_work_area, tsr_argument(arguments, 2));
    } else {
        struct plan plan = {0};
        plan.known = read_plan(arguments, &plan);
        plan.handle = plan_is_made_first(arguments->call) ? (uint32_t)*(const int *)tsr_argument(arguments, 1) : handle;
        pthread_mutex_lock(&lock);
        *place_of(plan.handle) = plan;
        pthread_mutex_unlock(&lock);
    }
}
