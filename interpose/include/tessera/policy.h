/*
 * The decision table: where launches go. Written by the control plane from the policy file into a memory file named by
 * TESSERA_POLICY (/proc/<pid>/fd/<n>), read by the shim. Rules are tried in order; the first whose conditions all hold decides.
 *
 * Home and executors stay as they are for a run; rules may change: `generation` says which of the two tables is in use
 * (generation % 2). The writer fills the other one and then counts the generation up, at most every 100 ms. A reader copies the table
 * and takes the copy only if the generation is still the same afterwards.
 *
 * Read by C and, through cffi, by Python. Bump TSR_POLICY_VERSION on any change; both sides refuse another version.
 */
#ifndef TESSERA_POLICY_H
#define TESSERA_POLICY_H

#include <stdint.h>

#include <tessera/gpus.h>

#define TSR_POLICY_MAGIC 0x4c4f505f52535454ull
#define TSR_POLICY_VERSION 15u
#define TSR_POLICY_RULES 256u
#define TSR_POLICY_TEXT_BYTES 65536u
#define TSR_POLICY_FOLLOW (-1) /* as memory_place: on the GPU whose launches use it */
#define TSR_POLICY_COPIES (-2) /* as memory_place: a copy on each GPU whose launches use it */

#define TSR_POLICY_ORDER_STREAM 0u /* as order: launches of a stream run one after the other */
#define TSR_POLICY_ORDER_DATA 1u   /* as order: on different GPUs only where data flows between them; needs copies */

#define TSR_POLICY_BY_STREAM (-1) /* as a rule's device: each stream is given one (schedule/assign.h) */
#define TSR_POLICY_BY_THREAD (-2) /* as a rule's device: each thread is given one */
#define TSR_POLICY_AUTO (-3)      /* as the default device: each launch goes where the rule of tessera/place.h says */

/* cffi: begin */
struct tsr_policy_executor {
    uint32_t device;             /* number of the GPU */
    uint32_t sm_limit;           /* SMs it may use; 0: all */
    uint64_t memory_limit_bytes; /* of memory it may allocate; 0: no limit */
    char socket[64];             /* path of its socket, by a descriptor of tessera-run (base/socket.h) */
};

enum tsr_policy_condition { /* bits of a rule's conditions; a rule without any holds for every launch */
                            TSR_POLICY_FUNCTION = 1,       /* glob over the function's name, declared or mangled */
                            TSR_POLICY_FUNCTION_REGEX = 2, /* POSIX extended regular expression, found anywhere in that name */
                            TSR_POLICY_MODULE = 4, /* glob over the module's name, or over its hash as 16 hexadecimal digits */
                            TSR_POLICY_PROCESS =
                                8, /* glob over the executable's file name, or over the name the process gave itself */
                            TSR_POLICY_BLOCKS = 16,        /* of the grid */
                            TSR_POLICY_THREADS = 32,       /* of the whole grid */
                            TSR_POLICY_BLOCK_THREADS = 64, /* of one block */
                            TSR_POLICY_STREAM = 128,
                            TSR_POLICY_NTH = 256,
                            TSR_POLICY_SHARE = 512,
                            TSR_POLICY_LIBRARY_CALL =
                                1024 /* glob over the entry point of a library that the launch happens in (tessera/library_calls.h) */
};

struct tsr_policy_rule {
    uint32_t line;       /* in the policy file */
    int32_t device;      /* number of an executor's GPU, or of the home GPU; TSR_POLICY_BY_STREAM; TSR_POLICY_BY_THREAD */
    uint32_t conditions; /* enum tsr_policy_condition */
    uint32_t stream;     /* number in the order of creation, from 1; 0: a default stream */
    uint32_t function, function_regex, module, process, library_call; /* offsets in the table's text */
    uint32_t reserved;
    uint64_t blocks[2], threads[2], block_threads[2]; /* smallest and largest */
    uint64_t nth_every; /* n % nth_every == nth_offset; 0: n == nth_offset. n counts the function's launches from 1 */
    uint64_t nth_offset;
    uint64_t share; /* of 2^64 */
    uint64_t seed;
};

/* Why bytes were pulled from another GPU's copy. All but the last are what the work needs as far as is known what it touches. */
enum tsr_pull_cause {
    TSR_PULL_LAUNCH,    /* a launch may read them, or leave them as they are */
    TSR_PULL_COPY,      /* a copy or memset does */
    TSR_PULL_UNKNOWN,   /* it is not known what the work touches */
    TSR_PULL_GIVEN,     /* memory that others are given is brought home for good */
    TSR_PULL_DIRECTORY, /* the directory had no room to tell who holds what */
    TSR_PULL_CONSTANT   /* launches will read them there, again and again */
};

struct tsr_policy_table {
    uint32_t rule_count;
    int32_t default_device;      /* as a rule's */
    uint32_t verify_every;       /* every n-th redirected launch is run at home too and compared; 0: none */
    uint64_t verify_limit_bytes; /* launches are not verified while the arena is larger; 0: no limit */
    uint32_t log_decisions;      /* 1: log what is decided for a function for the first time */
    uint32_t text_bytes;         /* used of text, at least 1: the first is a NUL */
    struct tsr_policy_rule rules[256];
    char text[65536]; /* strings with their NULs */
};

/* Counted at every launch. The totals are the sums over all parts of the table, modulo 2^64: what one thread counted another may take back. */
struct tsr_policy_counts {
    uint64_t launches[TSR_GPUS]; /* by GPU that ran them */
    uint64_t graphs[TSR_GPUS];   /* launches of graphs, by GPU that ran them */
    uint64_t copies[TSR_GPUS];   /* copies and memsets that followed their stream to another GPU, by GPU */
    uint64_t kept_reasons
        [32]; /* launches, of graphs too, that a rule sent elsewhere and that stayed, by enum tsr_reason (tessera/records.h) */
    uint64_t rule_launches[2][256]; /* launches that each rule decided, by table; of rules that are replaced: gone */
};

enum tsr_policy_proof { /* whether a GPU's copies of another one's memory were seen to be right at the start of the run */
                        TSR_PROOF_NONE,      /* nobody asked */
                        TSR_PROOF_PENDING,   /* not known yet */
                        TSR_PROOF_RIGHT,     /* all bytes */
                        TSR_PROOF_WRONG,     /* other bytes arrived */
                        TSR_PROOF_NO_ACCESS, /* the driver says that the one cannot access the other */
                        TSR_PROOF_FAILED     /* it could not be found out */
};

struct tsr_policy_pair {
    uint32_t proof; /* atomic, release; enum tsr_policy_proof; PENDING by the control plane, then by the executors' program */
    int32_t error;  /* FAILED: CUresult; 0: it took too long, or ended */
    uint64_t bytes_per_s; /* RIGHT: of the copy */
};

/* What placing launches one by one came to (schedule: auto); estimates, of all processes together. */
struct tsr_policy_schedule {
    uint64_t launches, unknown; /* that were placed; of these, those of which it was not known what they touch */
    uint64_t rested;            /* of these, those that the guard kept at home */
    uint64_t windows, won;      /* of the guard */
    uint64_t taken_ns;          /* until all was done */
    uint64_t single_ns;         /* the same on a machine with one GPU */
    uint64_t promised_ns;       /* and had the rule never been held back */
    uint64_t read_back;         /* reads for which the host waited, and not for all that the stream had been given */
};

/* Host memory of a pool (docs/pool.md); atomic, written by the shim. */
struct tsr_policy_host {
    uint64_t bytes;                            /* that the pool has */
    uint64_t owned_bytes, most_owned_bytes;    /* the program's memory in it, now and at most */
    uint64_t refused;                          /* how often the driver had none */
    uint64_t fetched, fetched_bytes;           /* extents that a GPU got a copy of, because a launch needed it */
    uint64_t prefetched, prefetched_bytes;     /* the same ahead of that */
    uint64_t prefetched_used;                  /* of these, those that a launch then used */
    uint64_t evicted, evicted_bytes;           /* copies that made room for others */
    uint64_t written_back, written_back_bytes; /* of these, those that had changed */
    uint64_t through_link;                     /* uses where it lies, because the GPU had no room */
};

struct tsr_policy {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t home; /* number of the GPU the application uses */
    uint32_t executor_count;
    struct tsr_policy_executor executors[TSR_GPUS - 1];
    uint32_t generation;             /* atomic, release; from 1 on */
    uint32_t library_calls;          /* 1: they are marked in this run */
    int32_t memory_place;            /* GPU where the application's memory lies; TSR_POLICY_FOLLOW; TSR_POLICY_COPIES */
    uint32_t memory_first;           /* TSR_POLICY_FOLLOW: the GPU where memory is created of which nothing is known */
    uint32_t order;                  /* TSR_POLICY_ORDER_STREAM or TSR_POLICY_ORDER_DATA */
    uint32_t memory_move_after;      /* TSR_POLICY_FOLLOW: so many more uses by another GPU before it moves */
    uint32_t memory_pool;            /* 1: the memory of all GPUs is one pool; needs copies */
    uint64_t memory_reserve_bytes;   /* of each GPU, left to copies and the driver; the rest is the pool's */
    uint64_t memory_host_bytes;      /* the pool has so much host memory besides; 0: none */
    uint64_t memory_gpu_limit_bytes; /* of each GPU, used at most by the pool and copies; 0: all */
    struct tsr_policy_table tables[2];
    struct tsr_policy_pair pairs[TSR_GPUS][TSR_GPUS]; /* [to][from]: GPU `to` copies memory of GPU `from` */
    /* live: written by the shim, atomic */
    struct tsr_policy_counts counts[32]; /* each thread adds to one of them: the first half have one writer each */
    uint64_t verified;                   /* launches that were run at home too */
    uint64_t different;                  /* of these, those that gave other bytes */
    uint64_t not_verified;               /* whose turn it was, but there was no room, or no quiet moment */
    uint64_t created_bytes[TSR_GPUS];    /* of memory that was created on another GPU than home, by GPU */
    uint64_t moved, moved_bytes;         /* moves of memory from one GPU to another, and their bytes */

    uint64_t pool_bytes[TSR_GPUS];         /* the pool's part of each GPU; 0: none */
    uint64_t owned_bytes[TSR_GPUS];        /* of the pool's: the program's memory, now */
    uint64_t most_owned_bytes[TSR_GPUS];   /* and at most so far */
    uint64_t pool_refused;                 /* allocations that found no room */
    uint64_t pool_split;                   /* that lie on several GPUs */
    uint64_t passed, passed_bytes;         /* memory that another GPU owns since, for balance */
    uint64_t given_back, given_back_bytes; /* copies that made room for something else */

    struct tsr_policy_host host;

    uint64_t copies_bytes[TSR_GPUS]; /* memory of copies on GPUs that do not own it, now, by GPU */
    uint64_t pulls[TSR_GPUS],
        pulled_bytes[TSR_GPUS];            /* of bytes that a launch or copy on that GPU used and the GPU did not have */
    uint64_t through_host_bytes[TSR_GPUS]; /* of these, bytes that went through host memory, by GPU that pulled */
    uint64_t pulled_for[8];                /* the same bytes by enum tsr_pull_cause */
    uint64_t brought_home;                 /* of the home GPU's: pulls for work of which it is not known what it touches */
    uint64_t brought_home_bytes;
    uint64_t waits;                            /* for other streams, before a pull */
    uint64_t ties;                             /* of a stream's work on one GPU to its work on another */
    uint64_t directory_bytes, directory_cells; /* of the directory, at the last change */

    struct tsr_policy_schedule schedule;

    uint64_t given_streams[TSR_GPUS], given_threads[TSR_GPUS]; /* streams and threads that rules gave a GPU, by GPU */

    uint32_t function_count; /* functions that were launched, once per process */
    uint32_t counting;       /* threads of all processes that have counted */
    char functions[64][256]; /* their names, of the first ones; cut */
};
/* cffi: end */

#endif
