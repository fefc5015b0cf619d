/*
 * A random program over streams, as data: operations on streams, events and small buffers, issued by a few host threads.
 *
 * Programs are free of races: any two operations that touch the same bytes, one of them writing, are ordered by the rules of streams,
 * events and the host's own waiting (edges.c), so the result is unique and running the operations one after the other (program.c)
 * gives it. run.c runs the program on a driver.
 */
#ifndef TESSERA_TESTS_MODEL_PROGRAM_H
#define TESSERA_TESTS_MODEL_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MOST_OPS 128
#define THREADS 3
#define WORDS 64 /* of a buffer */
#define EVENTS 6
#define HOME_EVENTS 4 /* the others belong to the second GPU */

/* Streams as operations name them. PER_THREAD means the issuing thread's own. */
enum stream {
    LEGACY,
    PER_THREAD,
    BLOCKING_A,
    BLOCKING_B,
    FREE_A,
    FREE_B,
    FREE_URGENT,
    BLOCKING_URGENT,
    OTHER_LEGACY,
    OTHER_FREE,
    OTHER_BLOCKING,
    STREAMS
};

/* Buffers: on the home GPU, on the second GPU by the program's own doing, pinned and pageable host memory. */
enum buffer { HOME_FIRST = 0, OTHER_FIRST = 8, PINNED_FIRST = 11, PAGED_FIRST = 15, BUFFERS = 18 };
#define FLAGS 3 /* two in pinned memory, one on the home GPU */

#define KINDS(X)                                                                                                               \
    X(LAUNCH) X(GRAPH) X(COPY) X(COPY_NOW) X(SET) X(SET_NOW) X(HOST_FUNCTION)                                                   \
    X(RECORD) X(WAIT) X(EVENT_SYNC) X(EVENT_POLL) X(EVENT_CHECK)                                                                 \
    X(STREAM_SYNC) X(STREAM_POLL) X(STREAM_CHECK) X(CONTEXT_SYNC) X(RECREATE)                                                    \
    X(HOST_WRITE) X(HOST_CHECK) X(FLAG_WRITE) X(FLAG_WAIT)

enum kind {
#define NAME(name) name,
    KINDS(NAME)
#undef NAME
        KIND_COUNT
};

struct op {
    uint8_t kind, thread;
    uint8_t after;    /* bit t: issued after all earlier operations of thread t have been issued */
    uint8_t stream;   /* enum stream; CONTEXT_SYNC: one of the context */
    uint8_t event;    /* or flag */
    uint8_t to, from; /* buffers: written, read; the checks compare `from` */
    uint8_t where;    /* LAUNCH, GRAPH: kernel; COPY, SET: which function of the driver */
    uint16_t spin;    /* rounds that a kernel idles */
    uint32_t salt;
};

struct program {
    unsigned count;
    struct op ops[MOST_OPS];
};

struct bits {
    uint64_t word[MOST_OPS / 64];
};

static inline bool bits_has(const struct bits *bits, unsigned i)
{
    return bits->word[i / 64] >> i % 64 & 1;
}

static inline void bits_add(struct bits *bits, unsigned i)
{
    bits->word[i / 64] |= 1ull << i % 64;
}

static inline void bits_join(struct bits *into, const struct bits *from)
{
    for (unsigned i = 0; i < MOST_OPS / 64; i++)
        into->word[i] |= from->word[i];
}

/* What is certain about a program's first operations. */
struct edges {
    struct bits issued[MOST_OPS]; /* issued before operation i is issued */
    struct bits before[MOST_OPS]; /* complete before operation i begins */
    struct bits known[MOST_OPS];  /* complete, seen from the issuing thread, once operation i has been issued */
};

/* Adds operation i, those before it being there; false: it could race, or wait for ever. */
bool edges_add(struct edges *edges, const struct program *program, unsigned i);
bool edges_valid(const struct program *program);

bool stream_on_other(unsigned stream); /* of the second GPU */
bool is_device(unsigned buffer);       /* on either GPU */
bool reads(const struct op *op, unsigned buffer);
bool writes(const struct op *op, unsigned buffer);

struct memory {
    uint32_t words[BUFFERS][WORDS];
};

void memory_init(struct memory *memory);
void mix(uint32_t *to, const uint32_t *from, uint32_t salt); /* what the kernels and host functions do */
/* Runs the program in order; seen[i] gets what a check or a copy to host memory must find. */
void interpret(const struct program *program, struct memory *memory, uint32_t seen[MOST_OPS][WORDS]);

/* Which functions of the driver COPY and SET may use: their numbers in `where`. */
enum { COPY_PLAIN, COPY_TYPED, COPY_PART, COPY_ROWS, COPY_WAYS };
enum { SET_8, SET_16, SET_32, SET_ROWS, SET_WAYS };
enum { KERNEL_HOME, KERNEL_ONE, KERNEL_TWO, KERNELS };

void program_generate(struct program *program, uint64_t seed, unsigned ops);
void program_print(const struct program *program, FILE *to);
bool program_read(struct program *program, FILE *from);

/* Runs it on the driver. False: a difference or an error, described in `what`. */
bool run_start(void);
bool run_program(const struct program *program, char *what, unsigned what_bytes);
void run_finish(void);

#endif
