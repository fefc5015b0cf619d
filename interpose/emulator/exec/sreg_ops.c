/*
 * Special registers. Values that differ between workers or runs on a real device (%smid, %warpid) are fixed functions of the block, and
 * clocks are the thread's own virtual time, so that programs see the same on every run.
 */
#include "groups.h"
#include "lines.h"
#include "state.h"
#include "tessera/machine.h"

typedef const struct tsr_insn insn;

static insn *put32(struct tsr_warp *w, insn *i, uint32_t m, uint32_t value)
{
    uint32_t *d = (void *)(w->frame + i->dst);
    if (m == UINT32_MAX)
        for (unsigned l = 0; l < TSR_WARP_LANES; l++)
            d[l] = value;
    else
        for (unsigned l = 0; l < TSR_WARP_LANES; l++)
            d[l] = m >> l & 1 ? value : d[l];
    return i + 1;
}

static insn *put64(struct tsr_warp *w, insn *i, uint32_t m, uint64_t value)
{
    uint64_t *d = (void *)(w->frame + i->dst);
    for (unsigned l = 0; l < TSR_WARP_LANES; l++)
        d[l] = m >> l & 1 ? value : d[l];
    return i + 1;
}

static insn *put_lanes(struct tsr_warp *w, insn *i, uint32_t m, const uint32_t *values)
{
    uint32_t *d = (void *)(w->frame + i->dst);
    for (unsigned l = 0; l < TSR_WARP_LANES; l++)
        d[l] = m >> l & 1 ? values[l] : d[l];
    return i + 1;
}

static uint32_t sm_count(const struct tsr_grid *grid)
{
    return grid->desc.sm_count != 0         ? grid->desc.sm_count
           : grid->desc.device_desc != NULL ? grid->desc.device_desc->sm_count
                                            : 1;
}

/* Virtual cycles since the kernel started, as this warp has seen them. Valid once the loop has handed in its counts (counts_are_in). */
static uint64_t clock_of(struct tsr_warp *w)
{
    const struct tsr_counters *counters = &w->control->counters;
    return counters->cycles / 16 + counters->latency_cycles + ++w->control->clock_reads;
}

/*
 * The loop keeps its counts to itself while it runs: a clock is read in two steps. The first leaves the loop, which then hands in
 * its counts and comes back to the same instruction; the second takes back what the first has cost.
 */
static bool counts_are_in(struct tsr_warp *w, insn *i, uint32_t m)
{
    struct tsr_warp_control *control = w->control;
    if (control->timing != i) {
        control->timing = i;
        control->pc = i;
        control->stop = TSR_STOP_COUNT;
        return false;
    }
    control->timing = NULL;
    control->counters.instructions--;
    control->counters.lanes -= (uint32_t)__builtin_popcount(m);
    control->counters.cycles -= i->cycles;
    return true;
}

static uint64_t nanoseconds(struct tsr_warp *w)
{
    return w->block->team->grid->desc.start_ns + clock_of(w) * 1000000 / tsr_warp_khz(w);
}

#define GRID (w->block->team->grid)
#define CLUSTERS(axis) (GRID->team_grid[axis])
#define CLUSTER(axis) (GRID->desc.cluster[axis])
#define ENVREG(n) ((n) == 1 && GRID->desc.cooperative ? (uint32_t)(GRID->workspace.base >> 32) : (n) == 2 && GRID->desc.cooperative ? (uint32_t)GRID->workspace.base : 0)

/* X(name as C has it, name as PTX has it, value) */
#define AXES(X, c, name, of)                                                                                                   \
    X(c##_x, name ".x", of(0))                                                                                                 \
    X(c##_y, name ".y", of(1))                                                                                                 \
    X(c##_z, name ".z", of(2))
#define NTID(axis) (GRID->desc.block[axis])
#define CTAID(axis) (w->block->ctaid[axis])
#define NCTAID(axis) (GRID->desc.grid[axis])
#define CLUSTERID(axis) (w->block->ctaid[axis] / CLUSTER(axis))
#define CLUSTER_CTAID(axis) (w->block->ctaid[axis] % CLUSTER(axis))
#define WORDS(X)                                                                                                               \
    AXES(X, ntid, "ntid", NTID)                                                                                                \
    AXES(X, ctaid, "ctaid", CTAID)                                                                                             \
    AXES(X, nctaid, "nctaid", NCTAID)                                                                                          \
    AXES(X, clusterid, "clusterid", CLUSTERID)                                                                                 \
    AXES(X, nclusterid, "nclusterid", CLUSTERS)                                                                                \
    AXES(X, cluster_ctaid, "cluster_ctaid", CLUSTER_CTAID)                                                                     \
    AXES(X, cluster_nctaid, "cluster_nctaid", CLUSTER)                                                                         \
    X(cluster_ctarank, "cluster_ctarank", w->block->rank)                                                                      \
    X(cluster_nctarank, "cluster_nctarank", GRID->team_blocks)                                                                 \
    X(warpid, "warpid", w->index)                                                                                              \
    X(nwarpid, "nwarpid", GRID->desc.device_desc != NULL ? GRID->desc.device_desc->max_threads_per_sm / 32 : 64)               \
    X(smid, "smid", (uint32_t)(w->block->index % sm_count(GRID)))                                                              \
    X(nsmid, "nsmid", sm_count(GRID))                                                                                          \
    X(dynamic_smem_size, "dynamic_smem_size", GRID->desc.shared_dynamic_bytes)                                                 \
    X(total_smem_size, "total_smem_size", GRID->shared_bytes)                                                                  \
    X(aggr_smem_size, "aggr_smem_size", GRID->shared_bytes + TSR_SHARED_RESERVED_BYTES)                                        \
    X(dynamic_smem_offset, "dynamic_smem_offset", GRID->dynamic_offset)                                                        \
    X(reserved_begin, "reserved_smem_offset_begin", TSR_SHARED_RESERVED_OFFSET)                                                \
    X(reserved_end, "reserved_smem_offset_end", TSR_SHARED_RESERVED_OFFSET + TSR_SHARED_RESERVED_BYTES)                        \
    X(reserved_cap, "reserved_smem_offset_cap", TSR_SHARED_RESERVED_OFFSET + TSR_SHARED_RESERVED_BYTES)                        \
    X(reserved_0, "reserved_smem_offset_0", TSR_SHARED_RESERVED_OFFSET)                                                        \
    X(reserved_1, "reserved_smem_offset_1", TSR_SHARED_RESERVED_OFFSET)                                                        \
    X(envreg1, "envreg1", ENVREG(1))                                                                                           \
    X(envreg2, "envreg2", ENVREG(2))                                                                                           \
    X(zero, "pm0", 0)
#define WIDES(X)                                                                                                               \
    X(gridid, "gridid", GRID->desc.grid_id)                                                                                    \
    X(wide_zero, "current_graph_exec", 0)
#define TIMES(X)                                                                                                               \
    X(clock, "clock", put32, (uint32_t)clock_of(w))                                                                            \
    X(clock_hi, "clock_hi", put32, (uint32_t)(clock_of(w) >> 32))                                                              \
    X(clock64, "clock64", put64, clock_of(w))                                                                                  \
    X(globaltimer, "globaltimer", put64, nanoseconds(w))                                                                       \
    X(globaltimer_lo, "globaltimer_lo", put32, (uint32_t)nanoseconds(w))                                                       \
    X(globaltimer_hi, "globaltimer_hi", put32, (uint32_t)(nanoseconds(w) >> 32))
#define LANES(X)                                                                                                               \
    X(laneid, "laneid", l)                                                                                                     \
    X(lanemask_eq, "lanemask_eq", 1u << l)                                                                                     \
    X(lanemask_lt, "lanemask_lt", (1u << l) - 1)                                                                               \
    X(lanemask_le, "lanemask_le", (2u << l) - 1)                                                                               \
    X(lanemask_gt, "lanemask_gt", ~((2u << l) - 1))                                                                            \
    X(lanemask_ge, "lanemask_ge", ~((1u << l) - 1))

#define DEFINE_WORD(c, name, value) static insn *read_##c(struct tsr_warp *w, insn *i, uint32_t m) { return put32(w, i, m, value); }
#define DEFINE_WIDE(c, name, value) static insn *read_##c(struct tsr_warp *w, insn *i, uint32_t m) { return put64(w, i, m, value); }
#define DEFINE_LANES(c, name, value)                                                                                           \
    static insn *read_##c(struct tsr_warp *w, insn *i, uint32_t m)                                                                    \
    {                                                                                                                          \
        uint32_t values[TSR_WARP_LANES];                                                                                       \
        for (uint32_t l = 0; l < TSR_WARP_LANES; l++)                                                                          \
            values[l] = value;                                                                                                 \
        return put_lanes(w, i, m, values);                                                                                     \
    }
#define DEFINE_TIME(c, name, put, value)                                                                                       \
    static insn *read_##c(struct tsr_warp *w, insn *i, uint32_t m) { return counts_are_in(w, i, m) ? put(w, i, m, value) : NULL; }
WORDS(DEFINE_WORD)
TIMES(DEFINE_TIME)
WIDES(DEFINE_WIDE)
LANES(DEFINE_LANES)

static insn *tid_x(struct tsr_warp *w, insn *i, uint32_t m)
{
    return put_lanes(w, i, m, w->control->tid[0]);
}
static insn *tid_y(struct tsr_warp *w, insn *i, uint32_t m)
{
    return put_lanes(w, i, m, w->control->tid[1]);
}
static insn *tid_z(struct tsr_warp *w, insn *i, uint32_t m)
{
    return put_lanes(w, i, m, w->control->tid[2]);
}

static insn *is_explicit_cluster(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint32_t *d = (void *)(w->frame + i->dst);
    *d = (*d & ~m) | (GRID->team_blocks > 1 || GRID->function->explicit_cluster ? m : 0);
    return i + 1;
}

#define ROW(c, name, value) TSR_OP_ROW("sreg." name, read_##c, TSR_C_MOVE),
#define TIME_ROW(c, name, put, value) ROW(c, name, value)
#define ZERO(name) TSR_OP_ROW("sreg." name, read_zero, TSR_C_MOVE)
#define WIDE_ZERO(name) TSR_OP_ROW("sreg." name, read_wide_zero, TSR_C_MOVE)
static const struct tsr_op ops[] = {
    WORDS(ROW) TIMES(TIME_ROW) WIDES(ROW) LANES(ROW) TSR_OP_ROW("sreg.tid.x", tid_x, TSR_C_MOVE),
    TSR_OP_ROW("sreg.tid.y", tid_y, TSR_C_MOVE),
    TSR_OP_ROW("sreg.tid.z", tid_z, TSR_C_MOVE),
    TSR_OP_ROW("sreg.is_explicit_cluster", is_explicit_cluster, TSR_C_MOVE),
    ZERO("pm1"),
    ZERO("pm2"),
    ZERO("pm3"),
    ZERO("pm4"),
    ZERO("pm5"),
    ZERO("pm6"),
    ZERO("pm7"),
    WIDE_ZERO("pm0_64"),
    WIDE_ZERO("pm1_64"),
    WIDE_ZERO("pm2_64"),
    WIDE_ZERO("pm3_64"),
    WIDE_ZERO("pm4_64"),
    WIDE_ZERO("pm5_64"),
    WIDE_ZERO("pm6_64"),
    WIDE_ZERO("pm7_64"),
    ZERO("envreg0"),
    ZERO("envreg3"),
    ZERO("envreg4"),
    ZERO("envreg5"),
    ZERO("envreg6"),
    ZERO("envreg7"),
    ZERO("envreg8"),
    ZERO("envreg9"),
    ZERO("envreg10"),
    ZERO("envreg11"),
    ZERO("envreg12"),
    ZERO("envreg13"),
    ZERO("envreg14"),
    ZERO("envreg15"),
    ZERO("envreg16"),
    ZERO("envreg17"),
    ZERO("envreg18"),
    ZERO("envreg19"),
    ZERO("envreg20"),
    ZERO("envreg21"),
    ZERO("envreg22"),
    ZERO("envreg23"),
    ZERO("envreg24"),
    ZERO("envreg25"),
    ZERO("envreg26"),
    ZERO("envreg27"),
    ZERO("envreg28"),
    ZERO("envreg29"),
    ZERO("envreg30"),
    ZERO("envreg31"),
};
TSR_OP_GROUP(tsr_sreg_ops, ops);
