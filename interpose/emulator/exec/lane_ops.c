/*
 * The registry: lane operations for this CPU, then matrix operations, then the interpreter's. Built once, constant from then on.
 */
#include "emulator/exec/registry.h"

#include "base/log.h"
#include "base/options.h"
#include "emulator/exec/lane/lane_table.h"
#include "tessera/machine.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define MAX_OPS 8192
#define SLOTS (2 * MAX_OPS)

const uint8_t tsr_type_bytes[TSR_T_COUNT] = {
    [TSR_T_NONE] = 0, [TSR_T_PRED] = 0, [TSR_T_B8] = 1,    [TSR_T_U8] = 1,     [TSR_T_S8] = 1,  [TSR_T_B16] = 2,
    [TSR_T_U16] = 2,  [TSR_T_S16] = 2,  [TSR_T_F16] = 2,   [TSR_T_BF16] = 2,   [TSR_T_B32] = 4, [TSR_T_U32] = 4,
    [TSR_T_S32] = 4,  [TSR_T_F32] = 4,  [TSR_T_F16X2] = 4, [TSR_T_BF16X2] = 4, [TSR_T_B64] = 8, [TSR_T_U64] = 8,
    [TSR_T_S64] = 8,  [TSR_T_F64] = 8,  [TSR_T_B128] = 16,
};

static struct tsr_op ops[MAX_OPS];
static uint32_t op_count;
static uint16_t slots[SLOTS]; /* number + 1; 0: free */
static unsigned level_in_use;
static pthread_once_t built = PTHREAD_ONCE_INIT;

static const char *const level_names[] = {"baseline", "v3", "v4"};

/* Whether the build has it and the CPU, too. */
static bool level_runs(unsigned level)
{
    if (!(TSR_LEVELS_BUILT >> level & 1))
        return false;
    __builtin_cpu_init();
    if (level == 2)
        return __builtin_cpu_supports("x86-64-v4");
    return level == 0 || __builtin_cpu_supports("x86-64-v3");
}

/* The best level of this CPU, or the one that the option asks for if this CPU has it. */
static unsigned level_choose(const char *wanted)
{
    unsigned best = TSR_LEVEL_COUNT - 1;
    while (!level_runs(best))
        best--;
    if (!*wanted)
        return best;
    for (unsigned level = 0; level <= best; level++)
        if (strcmp(wanted, level_names[level]) == 0 && level_runs(level))
            return level;
    tsr_warn("TESSERA_EMULATOR_ISA: this CPU, or this build, has no level \"%s\"; using %s", wanted, level_names[best]);
    return best;
}

/* FNV-1a. */
static uint32_t hash(const char *key, size_t length)
{
    uint32_t h = 2166136261u;
    for (size_t n = 0; n < length; n++)
        h = (h ^ (uint8_t)key[n]) * 16777619u;
    return h ^ h >> 15;
}

/* The slot of the key, or the free one where it belongs. */
static uint16_t *slot_of(const char *key, size_t length)
{
    uint32_t at = hash(key, length) % SLOTS;
    while (slots[at]) {
        const char *other = ops[slots[at] - 1].key;
        if (strncmp(other, key, length) == 0 && other[length] == '\0')
            break;
        at = (at + 1) % SLOTS;
    }
    return slots + at;
}

static void add(const struct tsr_op *op, tsr_op_fn *run)
{
    uint16_t *slot = slot_of(op->key, strlen(op->key));
    if (*slot || op_count == MAX_OPS) {
        tsr_error("operation %s: %s", op->key, *slot ? "registered twice" : "no room in the registry");
        return;
    }
    ops[op_count] = *op;
    ops[op_count].run = run;
    ops[op_count].number = op_count;
    *slot = (uint16_t)++op_count;
}

static void add_group(const struct tsr_op_group *group)
{
    for (uint32_t n = 0; n < group->count; n++)
        add(group->ops + n, group->ops[n].run);
}

static void build(void)
{
    level_in_use = level_choose(tsr_options()->emulator_isa);
    for (uint32_t n = 0; n < tsr_lane_row_count; n++) {
        const struct tsr_lane_row *row = tsr_lane_rows + n;
        add(&row->op, tsr_lane_groups[row->group].functions[level_in_use][row->index]);
    }
    add_group(tsr_matrix_op_group(level_in_use));
    for (const struct tsr_op_group *group = tsr_exec_op_groups(level_in_use); group->ops; group++)
        add_group(group);
}

const struct tsr_op *tsr_op_find(const char *key, size_t length)
{
    pthread_once(&built, build);
    uint16_t slot = *slot_of(key, length);
    return slot ? ops + slot - 1 : NULL;
}

const struct tsr_op *tsr_op_at(uint32_t number)
{
    pthread_once(&built, build);
    return number < op_count ? ops + number : NULL;
}

unsigned tsr_op_level(void)
{
    pthread_once(&built, build);
    return level_in_use;
}

tsr_op_fn *tsr_op_run_at(const struct tsr_op *op, unsigned level)
{
    if (level >= TSR_LEVEL_COUNT || !level_runs(level) || op->number >= tsr_lane_row_count)
        return NULL;
    const struct tsr_lane_row *row = tsr_lane_rows + op->number;
    return tsr_lane_groups[row->group].functions[level][row->index];
}

/* Lane results per clock of one SM; fused multiply-adds count as two operations in the device's figures. */
static uint64_t lanes_per_clock(const struct tsr_op *op, const struct tsr_device_desc *d)
{
    switch ((enum tsr_op_class)op->op_class) {
    case TSR_C_INT:
        return d->int32_ops_per_sm_clk;
    case TSR_C_INT_MUL:
        return d->int32_ops_per_sm_clk;
    case TSR_C_F32:
        return d->fp32_ops_per_sm_clk / 2;
    case TSR_C_F64:
        return d->fp64_ops_per_sm_clk / 2;
    case TSR_C_F16:
        return d->fp16_ops_per_sm_clk / 2;
    case TSR_C_SPECIAL:
    case TSR_C_CONVERT:
    case TSR_C_COLLECTIVE:
        return d->special_ops_per_sm_clk;
    case TSR_C_MOVE:
        return d->int32_ops_per_sm_clk;
    case TSR_C_MMA_F16:
        return d->tensor_fp16_ops_per_sm_clk / 2;
    case TSR_C_MMA_TF32:
        return d->tensor_tf32_ops_per_sm_clk / 2;
    case TSR_C_MMA_S8:
        return d->tensor_int8_ops_per_sm_clk / 2;
    case TSR_C_MMA_F64:
        return d->tensor_fp64_ops_per_sm_clk / 2;
    case TSR_C_SHARED:
    case TSR_C_MEMORY:
    case TSR_C_ATOMIC:
        return 32; /* one load-store unit per scheduler issues a warp in four cycles */
    case TSR_C_CONTROL:
        return 128; /* the issue slot alone */
    case TSR_C_FREE:
    case TSR_C_COUNT:
        break;
    }
    return 0;
}

uint16_t tsr_op_cycles(const struct tsr_op *op, const struct tsr_device_desc *device)
{
    if (op->op_class == TSR_C_FREE)
        return 0;
    /* One scheduler is a quarter of an SM and takes 32 lanes; the result counts sixteenths of a cycle, one issue slot at least. */
    uint64_t rate = lanes_per_clock(op, device);
    uint64_t work = (uint64_t)(op->work ? op->work : 1) * 32 * 4 * 16;
    uint64_t cycles = (work + (rate ? rate : 1) - 1) / (rate ? rate : 1);
    return (uint16_t)(cycles < 16 ? 16 : cycles > UINT16_MAX ? UINT16_MAX : cycles);
}
