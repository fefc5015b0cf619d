/*
 * A random CUDA program, made and run from a seed, whose bytes at the end are the same wherever its launches run.
 *
 * A program is some threads, each with its own streams, and phases. In a phase a thread executes operations on *items* that are its own: memory
 * (struct slot), modules (struct module) and tables of pointers (struct table). Some items are shared: each phase gives them to another thread.
 * No two accesses to an item race: before a stream touches one, it waits for the streams that did before (order.c), in one of the ways that
 * CUDA has for that. Nothing that depends on time or on addresses goes into memory that is compared.
 *
 * Each operation draws from a sequence of its own and looks at what there is when it is executed: any part of the operations is
 * a program, too (--only), which is how scripts/lab random-programs makes a failing one small.
 */
#ifndef TESSERA_TESTS_RANDOM_PROGRAM_H
#define TESSERA_TESTS_RANDOM_PROGRAM_H

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include <cuda.h>

#include "draw.h"

#define MOST_THREADS 4u
#define MOST_PHASES 4u
#define MOST_OPS 40u /* of a thread in a phase */

/* What programs use, by the names of --without. A program uses a part of them. */
#define FEATURES(X)                                                                                                            \
    X(threads) X(virtual) X(addresses) X(async) X(pools) X(vmm) X(managed) X(pinned) X(registered) X(large) X(graphs) X(modules) X(indirect)            \
    X(variables) X(globals) X(heap) X(pointers) X(peer) X(contexts) X(hostfunc) X(values) X(attributes) X(copies) X(streams)     \
    X(parts) X(scatter) X(ipc)

enum feature {
#define FEATURE(name) FEATURE_##name,
    FEATURES(FEATURE)
#undef FEATURE
        FEATURE_COUNT
};

/* Streams of a thread. OTHER belongs to GPU 1, which the program then uses itself. */
enum stream { LEGACY, PER_THREAD, BLOCKING, FREE_A, FREE_B, URGENT, OTHER, STREAMS };
#define NO_STREAM 0xffu

/* Who touched an item last, as its owner knows. */
struct sync {
    uint8_t writer, readers; /* stream of the last write, or NO_STREAM; bit per stream: has read since */
    bool handed;             /* another thread's last use ends with events[handed_gpu]: not yet waited for */
    uint8_t handed_gpu;
    CUevent events[2]; /* one for each GPU's streams */
};

struct kind;

#define GUARD_WORDS 64u /* before and after the window, compared as well */

/* Memory. What kernels and copies use is a window of it. */
struct slot {
    struct sync sync;
    const struct kind *kind; /* NULL: there is none */
    CUdeviceptr base;        /* for kernels; 0: for copies only */
    unsigned char *host;     /* for the CPU; NULL: not for it */
    size_t bytes, offset;    /* offset: of the window */
    uint32_t words;          /* of the window: a multiple of 64 */
    uint32_t generation;     /* how often there was something here */
    CUmemoryPool pool;
    size_t reserved; /* VMM: addresses; mapped pages come first */
    uint32_t pages;
    CUmemGenericAllocationHandle physical[3];
    void *registered;    /* what was allocated around `host` */
    struct block *block; /* a part of it */
};

/* An allocation that the program itself divides, as caching allocators do: its parts are slots of any thread. */
#define BLOCKS 2u
#define PARTS 16u
#define PART_BYTES 8192u

struct block {
    CUdeviceptr base; /* 0: there is none */
    uint32_t taken;   /* bit per part */
};

enum { STATE_FUNCTIONS = 12 };

/* A module with state: variables and functions that are called by address. Its sync is that of the variables. */
struct module {
    struct sync sync;
    CUmodule module;   /* or */
    CUlibrary library; /* one of them */
    CUfunction functions[STATE_FUNCTIONS];
    uint32_t generation;
    bool loaded;
};

enum content { NOTHING, FUNCTIONS, OBJECTS, ADDRESS, HEAP, POINTERS };

/* Pointers in memory: what they are differs from run to run, so it is not compared. */
struct table {
    struct sync sync;
    CUdeviceptr base;
    enum content content;
    uint32_t module, generation;       /* whose functions, objects or variable */
    uint32_t slots[4], generations[4]; /* POINTERS */
};

#define TABLE_ENTRIES 8u
#define OWN_SLOTS 5u
#define OWN_MODULES 1u
#define OWN_TABLES 2u
#define SHARED_SLOTS 4u
#define SHARED_MODULES 1u
#define SHARED_TABLES 2u
#define SLOTS (MOST_THREADS * OWN_SLOTS + SHARED_SLOTS)
#define MODULES (MOST_THREADS * OWN_MODULES + SHARED_MODULES)
#define TABLES (MOST_THREADS * OWN_TABLES + SHARED_TABLES)

struct graph;
#define GRAPHS 2u
#define WORKER_EVENTS 6u

struct program;

struct worker {
    struct program *program;
    uint32_t number, phase, op;
    CUstream streams[STREAMS];
    bool opened[STREAMS];
    CUevent events[2][WORKER_EVENTS];
    uint32_t next_event[2];
    CUdeviceptr flags; /* a word for each stream, which it writes and others wait for */
    uint32_t flag_value;
    struct graph *graphs[GRAPHS];
    void *notes;     /* arguments of host functions, which live as long as the program */
    uint64_t digest; /* of what the CPU read */
};

struct program {
    uint64_t seed;
    uint32_t threads, phases, ops; /* ops: of a thread in a phase */
    uint32_t features;             /* bit per enum feature */
    bool own_context;
    CUcontext contexts[2]; /* of GPU 0 and 1 */
    bool failed;           /* atomic */
    char failure[256];
    struct slot slots[SLOTS];
    struct module modules[MODULES];
    struct table tables[TABLES];
    pthread_mutex_t blocks_lock;
    struct block blocks[BLOCKS]; /* blocks_lock */
    struct worker workers[MOST_THREADS];
};

static inline bool uses(const struct program *program, enum feature feature)
{
    return program->features >> feature & 1;
}

/* Which of the items belong to a worker in its phase: of `own` per thread and, after all of those, the shared ones. */
bool owns(const struct worker *worker, uint32_t item, uint32_t own);

/* False, and the program ends: the call failed. */
bool succeeded(struct worker *worker, CUresult result, const char *call);
#define CU(call) succeeded(worker, call, #call)

/* With --print, what an operation does. */
extern bool printing;
/* One more of what programs do, by a literal; run_report prints them all. */
void tally(const char *what);
void run_report(void);
void say(struct worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    uint64_t word;
    for (; count >= sizeof word; count -= sizeof word, byte += sizeof word) {
        __builtin_memcpy(&word, byte, sizeof word);
        digest = scramble(digest + word + 0x9e3779b97f4a7c15u);
    }
    for (; count > 0; count--, byte++)
        digest = scramble(digest + *byte + 1);
    return digest;
}

/* order.c: streams, and who waits for whom. */
CUstream stream_of(struct worker *worker, uint32_t stream);
const char *stream_name(uint32_t stream);
uint32_t draw_stream(struct worker *worker, struct draw *draw); /* of GPU 0 */
void enter(struct worker *worker, uint32_t stream);             /* makes its GPU's context current */
void order(struct worker *worker, struct sync *sync, uint32_t stream, bool write, struct draw *draw);
void host_wait(struct worker *worker, struct sync *sync, bool write, struct draw *draw);
void hand_over(struct worker *worker, struct sync *sync); /* to the owner of the next phase */
void lock_captures(bool capture);                         /* what cannot be done while another thread captures */
void unlock_captures(void);
void close_streams(struct worker *worker);

/* memory.c */
enum use { FOR_KERNELS = 1, FOR_CPU = 2, FOR_ARENA = 4, FOR_GPU_1 = 8 };
struct slot *pick_slot(struct worker *worker, struct draw *draw, uint32_t use,
                       const struct slot *but); /* NULL: there is none */
bool slot_fits(const struct slot *slot, uint32_t use);
void slot_free(struct worker *worker, struct slot *slot, struct draw *draw);
bool is_peer(const struct slot *slot);   /* memory of GPU 1 */
bool is_mapped(const struct slot *slot); /* by the program itself */
bool is_managed(const struct slot *slot);
bool is_part(const struct slot *slot);
bool is_allocation(const struct slot *slot); /* its base is what cuMemAlloc gave, and nobody else has any of it */
void blocks_end(struct worker *worker);      /* all parts have been freed */
uint32_t slot_number(const struct worker *worker, const struct slot *slot);
static inline CUdeviceptr window(const struct slot *slot)
{
    return slot->base + slot->offset;
}
static inline uint32_t *cpu_window(const struct slot *slot)
{
    return (uint32_t *)(void *)(slot->host + slot->offset);
}
uint64_t slot_digest(struct worker *worker, struct slot *slot, uint64_t digest);

/* work.c */
bool work_start(CUcontext context, uint32_t gpu); /* loads its kernels there */
enum kernel { MIX_A, MIX_B, MIX_C, FILL, ADD, TURN, FOLLOW, SCATTER, CHASE, KERNELS };
CUfunction kernel_of(const struct program *program, uint32_t gpu, enum kernel kernel);
void notes_end(struct worker *worker);
CUresult launch_mix(struct worker *worker, CUstream stream, uint32_t gpu, const struct slot *to, const struct slot *from,
                    struct draw *draw);

/* partner.c: another process, which uses memory of this one. */
int partner_main(void);
void partner_end(void);

/* module.c, graph.c */
void modules_end(struct worker *worker, struct draw *draw);
void graphs_end(struct worker *worker);

/* The operations. */
#define OPS(X)                                                                                                                 \
    X(launch, 30) X(fill, 4) X(add, 6) X(turn, 4) X(copy, 14) X(copy_now, 6) X(rows, 4) X(set, 6) X(read, 6) X(write, 4)        \
    X(hostfunc, 4) X(replace, 10) X(ask, 3) X(wait, 4) X(restart_stream, 2) X(context, 2) X(grow, 5) X(prefetch, 2)             \
    X(trim, 2) X(load, 3) X(unload, 2) X(bump, 6) X(peek, 4) X(look, 4) X(global, 4) X(remember, 5) X(apply, 8)                 \
    X(objects, 4) X(invoke, 6) X(keep_address, 4) X(by_address, 6) X(heap_make, 4) X(heap_use, 5) X(heap_free, 2)               \
    X(link, 4) X(follow, 6) X(chase, 5) X(scatter, 12) X(lend, 2) X(capture, 3) X(build, 3) X(graph_launch, 8) X(graph_change, 3) X(graph_drop, 2)

#define OP(name, weight) void op_##name(struct worker *worker, struct draw *draw);
OPS(OP)
#undef OP

/* run.c */
struct request {
    uint64_t seed;
    uint32_t without; /* features */
    const uint32_t *only;
    size_t only_count; /* operations, by op_number(); with `only` no others are executed */
    bool digests;      /* print one for each item */
};
static inline uint32_t op_number(uint32_t thread, uint32_t phase, uint32_t op)
{
    return (thread * MOST_PHASES + phase) * MOST_OPS + op;
}
bool run_start(void);
bool run_program(const struct request *request, uint64_t *digest, char failure[256]);
void run_describe(uint64_t seed, uint32_t without); /* prints size and features */
extern const char *const feature_names[FEATURE_COUNT];

#endif
