/*
 * A plan that a run follows: where the operations of the program's recurring iteration should run. Written by the control plane into a memory
 * file named by TESSERA_PLAN (/proc/<pid>/fd/<n>), read by the shim (schedule/plan.h), which counts in it.
 *
 * A plan may be replaced while the program runs: `generation` says which of the two tables is in use (generation % 2). The writer fills the other
 * one and then counts the generation up, at most every 100 ms. A reader copies the table and takes the copy only if the generation is still the
 * same afterwards.
 *
 * Read by C and, through cffi, by Python. Bump TSR_PLAN_VERSION on any change; both sides refuse another version.
 */
#ifndef TESSERA_PLAN_H
#define TESSERA_PLAN_H

#include <stdint.h>

#include <tessera/gpus.h>

#define TSR_PLAN_MAGIC 0x4e414c5052535454ull
#define TSR_PLAN_VERSION 2u
#define TSR_PLAN_CLASSES 1024u
#define TSR_PLAN_OPERATIONS 16384u
#define TSR_PLAN_PLACEMENTS 16u

/* cffi: begin */
enum tsr_plan_what { TSR_PLAN_LAUNCH, TSR_PLAN_COPY, TSR_PLAN_SET, TSR_PLAN_GIVE };

/* Operations that are alike. */
struct tsr_plan_class {
    uint32_t what; /* enum tsr_plan_what */
    uint32_t size; /* no launch: how many bits its number of bytes has */
    uint64_t name; /* of a launch: hash of the function's name (base/hash.h) */
    uint64_t code; /* hash of its module; 0: not known */
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, reserved;
};

/* Equal GPUs, which take requests in turn. */
struct tsr_plan_group {
    uint32_t count;
    uint32_t gpus[TSR_GPUS]; /* the machine's numbers */
};

/* Of so many of the requests, in proportion. */
struct tsr_plan_placement {
    double weight;
    uint8_t group[16384]; /* by operation */
};

struct tsr_plan_table {
    uint32_t class_count, operation_count, group_count, placement_count;
    uint32_t compares_reads; /* 1: classes alone do not tell where in the iteration a launch is */
    uint32_t carries;        /* 1: iterations need what earlier ones of their thread left, so a thread keeps its placement */
    struct tsr_plan_class classes[1024];
    uint16_t class_of[16384]; /* of each operation */
    uint8_t continues[16384]; /* 1: it reads what the operation before it in its stream wrote */
    struct tsr_plan_group groups[TSR_GPUS];
    struct tsr_plan_placement placements[16];
};

/* What became of launches, copies and memsets that were placed one by one while there was a plan. */
struct tsr_plan_counts {
    uint64_t followed;
    uint64_t stayed;     /* the plan names another GPU, to which it could not go */
    uint64_t unknown;    /* it is not in the plan */
    uint64_t other_code; /* the plan has its function, with other code */
    uint64_t unexpected; /* it is in the plan, but not there: the program does something else than it did */
    uint64_t unplaced;   /* not enough has been seen yet to tell where in the iteration it is */
    uint64_t requests;   /* iterations begun */
    uint64_t in_flight;  /* requests, when others began: the sum */
    uint64_t swaps;      /* plans that replaced others */
};

/* Launches of a class's function, with its code, in another shape; times as in observed_ns. */
struct tsr_plan_shape {
    uint32_t of; /* number of the class */
    uint32_t grid[3], block[3], shared_bytes;
    uint64_t launches;
    float ns[TSR_GPUS];
};

struct tsr_plan {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t generation; /* atomic, release; from 1 on */
    uint32_t adapts;     /* 1: somebody looks at what launches take, and may replace the plan */
    struct tsr_plan_table tables[2];
    /* live: written by the shim, atomic */
    struct tsr_plan_counts counts;
    double start_ns;                   /* of the first launch, by the same clock */
    double followed_ns;                /* when the generation in use was first followed */
    double now_ns;                     /* of the clock of who reported last: real, or virtual on emulated GPUs */
    uint32_t observed_generation;      /* of what follows */
    uint32_t lost;                     /* set of GPUs whose executor is lost, by the machine's numbers */
    float observed_ns[1024][TSR_GPUS]; /* what launches of a class took, by the machine's number of the GPU; 0: not known */
    uint32_t shape_count, reserved_too;
    struct tsr_plan_shape shapes[64];
};
/* cffi: end */

#endif
