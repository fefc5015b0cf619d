/*
 * The protocol between a shim and an executor.
 *
 * There are two channels. Control messages (struct tsr_message, one per packet of a SOCK_SEQPACKET socket, with a descriptor as SCM_RIGHTS where the kind says
 * so, each answered by a tsr_reply, in order) are about memory, modules, functions and streams. The lane (struct tsr_lane, a memory file that the
 * shim creates and sends with HELLO) carries launches and fences, one way, without answers. Whatever a lane record refers to has been
 * acknowledged on the socket before. Local to one machine and one release: no byte order, version checked in HELLO.
 *
 * Neither side trusts the other's numbers. Memory files are sealed against changes of their size, images also against writing, and the
 * receiver checks the seals. A record is copied out of the lane and then checked (carry/record.h): what was checked cannot change any more.
 */
#ifndef TESSERA_LANE_H
#define TESSERA_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/apart.h>
#include <tessera/gpus.h>

#define TSR_LANE_VERSION 12u
#define TSR_LANE_RINGS 16u               /* of records: a stream's go to number `stream % TSR_LANE_RINGS` */
#define TSR_LANE_RING_BYTES (256u << 10) /* of records; a power of two, and more than twice the largest one */
#define TSR_LANE_FRONT_BYTES (128u << 10) /* the part before the rings, which GPUs read and write */
#define TSR_LANE_STREAMS 1024u            /* streams that may have work on an executor at a time */
#define TSR_LANE_TIMES 2048u              /* launches and pulls that are being timed at a time; */
#define TSR_LANE_TIMES_PLACED 32u         /* the last of these are for whoever places launches (schedule/) */

/*
 * Addresses that are the same in both processes: of the lane, so that its semaphores have one address; of the arena; of the application's own
 * reservations, after it; and of page-locked host memory.
 */
#ifdef __SANITIZE_THREAD__ /* which leaves little address space to applications */
#define TSR_ARENA_ADDRESS 0x7ed000000000ull
#define TSR_ARENA_BYTES (4ull << 30)
#define TSR_RESERVE_BYTES (32ull << 30)
#define TSR_HOST_ADDRESS 0x7ee800000000ull
#define TSR_HOST_BYTES (16ull << 30)
#define TSR_LANE_ADDRESS 0x7eec00000000ull
#define TSR_WINDOWS 8u
#else
#define TSR_WINDOWS 16u
#define TSR_ARENA_ADDRESS 0x200000000000ull
#define TSR_ARENA_BYTES (2ull << 40)
#define TSR_RESERVE_BYTES (8ull << 40)
#define TSR_HOST_ADDRESS 0x1e0000000000ull
#define TSR_HOST_BYTES (1ull << 40)
#define TSR_LANE_ADDRESS 0x1ffff0000000ull
#endif
/* Whether the address is that of page-locked host memory, whether or not memory is there. */
static inline bool tsr_host_covers(uint64_t address)
{
    return address - TSR_HOST_ADDRESS < TSR_HOST_BYTES;
}
#define TSR_LANE_SPACING (8ull << 20) /* one lane per executor, each at its own address */
#define TSR_LANES (TSR_GPUS - 1)
#define TSR_RESERVE_ADDRESS (TSR_ARENA_ADDRESS + TSR_ARENA_BYTES)
/* Window n, of TSR_ARENA_BYTES: GPU n's copy of the arena's memory, in every process, at the same distance from its begin as in the arena. */
#define TSR_WINDOWS_ADDRESS (TSR_RESERVE_ADDRESS + TSR_RESERVE_BYTES)

enum tsr_message_kind {
    TSR_MESSAGE_HELLO, /* descriptor: the lane */
    TSR_MESSAGE_MAP,   /* descriptor: memory; address, bytes; detail: CUmemAccess_flags; value: 1 + the GPU it is on, 0: home */
    TSR_MESSAGE_UNMAP, /* address, bytes of a MAP */
    TSR_MESSAGE_MOVE,  /* as MAP, for an address that is mapped: replaces the memory there; MOVED follows */
    TSR_MESSAGE_MOVED, /* address of a MOVE; detail: 1: it is final, 0: undo it */
    TSR_MESSAGE_ACCESS,    /* address, bytes: whole MAPs; detail: CUmemAccess_flags */
    TSR_MESSAGE_RESERVE,   /* address, bytes: a reservation of the application's, outside the arena */
    TSR_MESSAGE_UNRESERVE, /* address, bytes of a RESERVE */
    TSR_MESSAGE_HOST,      /* descriptor: host memory; address, bytes; mapped and registered */
    TSR_MESSAGE_HOST_FREE, /* address of a HOST */
    TSR_MESSAGE_MODULE,    /* descriptor: image; id, bytes, detail: 1 when loaded as a library */
    TSR_MESSAGE_UNLOAD,    /* id */
    TSR_MESSAGE_FUNCTION,  /* id: new function; parent: module; name follows in text. Answered with its global references */
    TSR_MESSAGE_VARIABLE,  /* parent: module; name follows in text. Answered with whether code leads to it */
    TSR_MESSAGE_LIMIT,     /* detail: CUlimit; bytes: its value */
    TSR_MESSAGE_ATTRIBUTE, /* id: function; detail: CUfunction_attribute, TSR_ATTRIBUTE_CACHE: CUfunc_cache; value */
    TSR_MESSAGE_STREAM, /* id: slot; detail: priority. Again for a slot: its stream is replaced, all work in it is complete */
    TSR_MESSAGE_LANE,   /* descriptor: the lane of another executor; address, bytes: of the part that GPUs access */
    TSR_MESSAGE_BOUNDS, /* descriptor: struct tsr_bounds (tessera/bounds.h); bytes: its size. Without a descriptor: bounds are no longer checked */
    TSR_MESSAGE_GRAPH,     /* descriptor: struct tsr_lane_graph; bytes: its size; id: new graph */
    TSR_MESSAGE_GRAPH_SET, /* the same for a graph that is there, without edges: nodes that have changed */
    TSR_MESSAGE_GRAPH_DROP /* id */
};

#define TSR_ATTRIBUTE_CACHE (-1)

struct tsr_message {
    uint32_t kind, version;
    uint32_t id, parent;
    uint64_t address, bytes;
    int32_t detail, value;
    char text[4032];
};

enum tsr_global_flag {                         /* global references of a function (globals/globals.h) */
                       TSR_GLOBALS_STATE = 1,  /* a variable that may be written; also if unknown */
                       TSR_GLOBALS_PRINTF = 2, /* printf */
                       TSR_GLOBALS_HEAP = 4,   /* malloc, free */
                       TSR_GLOBALS_CODE =
                           8, /* it calls code by an address that it may have loaded from memory, or stores one there */
                       TSR_GLOBALS_ADDRESS =
                           16, /* it follows pointers in memory, in a module that stores addresses of variables or of the heap */
                       TSR_GLOBALS_STORED = 32 /* the module stores such addresses, so that a parameter may be one */
};

struct tsr_reply {
    int32_t result; /* CUresult */
    uint32_t
        flags; /* HELLO: the executor's process. FUNCTION: enum tsr_global_flag; VARIABLE: 0 if the module cannot refer to it, TSR_GLOBALS_STATE if it may */
    uint64_t variables; /* FUNCTION: those that it may read, by tsr_variable_bit() (globals/globals.h) */
};

enum tsr_lane_record_kind {
    TSR_LANE_SKIP,
    TSR_LANE_LAUNCH,
    TSR_LANE_WAIT,
    TSR_LANE_SIGNAL,
    TSR_LANE_COPY,  /* struct tsr_lane_copy follows */
    TSR_LANE_SET,   /* struct tsr_lane_set follows */
    TSR_LANE_WRITE, /* the bytes follow that are written to device address `value` */
    TSR_LANE_GRAPH  /* launch of a graph, whose id is in `function` */
};

#define TSR_LANE_MOST_WRITTEN 32768u /* bytes of a WRITE */

struct tsr_lane_copy {
    uint64_t to, from; /* device addresses */
    uint64_t to_pitch, from_pitch;
    uint64_t width, height; /* bytes, rows; pitches mean nothing for one row */
};

struct tsr_lane_set {
    uint64_t to, pitch;
    uint64_t width, height;  /* elements, rows */
    uint32_t value, element; /* element: its bytes */
};

/*
 * The memory file of a GRAPH message. This is followed by the edges and then by the nodes: each a record of the kind LAUNCH, COPY, SET or
 * SKIP (an empty node), and directly after it its data; `bytes` counts both, and is a multiple of 8. In a node's record `stream` is its
 * place in the graph, and `time` 1 if it is disabled; stamp and sequence mean nothing.
 */
struct tsr_lane_graph {
    uint32_t nodes, edges;
};

struct tsr_lane_edge {
    uint32_t from, to; /* places of nodes */
};

#define TSR_LANE_GRAPH_NODES 65536u /* most of a graph */

/*
 * Records are multiples of TSR_LANE_UNIT bytes and never wrap: a SKIP fills the end of a ring. What follows a record lies in further units, without
 * their first eight bytes: where a stamp may stand, nothing else ever does.
 */
#define TSR_LANE_UNIT 64u
#define TSR_LANE_UNIT_ROOM 56u
struct tsr_lane_record {
    uint64_t stamp; /* atomic; its position + 1 once all of it is written */
    uint16_t kind;
    uint16_t time;   /* LAUNCH, COPY: 1 + its index among the times, or 0: it is not timed; enum tsr_lane_time_part */
    uint32_t bytes;  /* of the whole record */
    uint32_t stream; /* slot */
    uint32_t function;
    uint64_t
        value; /* WAIT: until home[stream] >= value, or, with `function` n not 0, away[stream] of lane n - 1, or TSR_LANE_OWN of this lane. SIGNAL: write it to away[stream]. LAUNCH: tsr_lane_shape(), or 0. WRITE: an address */
    union {
        struct {
            uint32_t grid[3], block[3];
        };
        uint64_t sequence; /* WAIT, SIGNAL: how many of them were posted to the lane before, in all rings */
    };
    uint32_t shared_bytes; /* LAUNCH. WAIT: 1 + the slot whose fence it is, 0: its own */
    uint32_t
        param_bytes; /* of the data after the record. LAUNCH: the parameter block and, at the next multiple of 8, CUlaunchAttributes */
};

/* Of a launch with attributes: bytes of the parameter block alone, and the number of attributes. */
static inline uint64_t tsr_lane_shape(uint32_t param_bytes, uint32_t attributes)
{
    return (uint64_t)param_bytes << 32 | attributes;
}

/* If work of several records is timed: whether this one begins or ends it. */
enum tsr_lane_time_part { TSR_LANE_TIME_BEGINS = 0x4000, TSR_LANE_TIME_ENDS = 0x8000, TSR_LANE_TIME_PLACE = 0x3fff };

/* Time of a launch or pull on the GPU. The shim opens the entry before it posts the record; the executor answers once. */
struct tsr_lane_time {
    uint32_t state; /* atomic; enum tsr_lane_time_state */
    uint32_t reserved;
    uint64_t start_ns, ns; /* as in a TIME record (tessera/records.h) */
};

/*
 * A ring has many writers and one reader. A writer reserves space by moving the tail, writes, and stamps the record; the reader
 * continues when the record at the head is stamped. A stamp is never the same twice, and stands where nothing else does, so nothing has to be
 * cleared after the reader: it writes to no record.
 *
 * Order. A stream's records are in one ring, and are carried out in its order. Between streams only fences are ordered: the reader
 * takes WAITs and SIGNALs, of all rings together, in the order in which they were posted (`sequence`). So when the driver is given a WAIT, it
 * has been given everything on which that may depend: the SIGNALs that were posted before it, and the records before those in their streams.
 *
 * The reader is the executor until the lane is closed, then the shim. The executor publishes what it takes in `taken`, and then checks `closed`
 * before it carries anything out; the shim stores `closed` and then reads `taken`: so each record is carried out by at most one of them.
 */
struct tsr_lane_ring {
    TSR_APART uint64_t tail; /* atomic; bytes reserved by writers; written by the shim */
    uint64_t seen_head;      /* atomic; `head` when a writer last read it */
    TSR_APART uint64_t head; /* atomic; bytes consumed; written by the reader */
    uint64_t taken;          /* atomic; the same before a record is carried out */
    TSR_APART uint8_t records[TSR_LANE_RING_BYTES];
};

struct tsr_lane {
    union {
        struct {
            uint32_t version;
            uint32_t
                dead; /* atomic; CUresult once the executor, or its work, has failed: then records are ignored and fences are open */
            uint32_t
                closed; /* atomic; 1: the shim carries out the records itself, and the executor takes no more; or TSR_LANE_PARDONED */
            uint32_t never;                            /* futex for sleeping with a timeout; nobody wakes it: 0 */
            TSR_APART uint32_t sleeping;               /* futex: 1 while the executor sleeps */
            TSR_APART uint64_t pulse;                  /* atomic; counts up while the executor's process runs */
            TSR_APART uint64_t home[TSR_LANE_STREAMS]; /* fences: written by the home GPU's streams */
            uint64_t away[TSR_LANE_STREAMS];           /* written by the executor's streams */
            /* What has been taken, by stream; atomic; written by the executor before `taken`. */
            /* The stream's taken work is complete when away[stream] >= this; TSR_LANE_UNSETTLED: no signal has been posted after it yet. */
            uint64_t settles[TSR_LANE_STREAMS];
            uint64_t follows[TSR_LANE_STREAMS]; /* the next work of the stream waits for this: tsr_lane_follow() */
            struct tsr_lane_time times[TSR_LANE_TIMES];
            uint32_t
                given[TSR_LANE_STREAMS]; /* atomic; records of the stream that the driver was given; written by the executor */
        };
        uint8_t front[TSR_LANE_FRONT_BYTES];
    };
    struct tsr_lane_ring rings[TSR_LANE_RINGS];
};

/* Of a record that so much follows. */
static inline uint32_t tsr_lane_record_bytes(uint32_t following)
{
    return TSR_LANE_UNIT * (1 + (following + TSR_LANE_UNIT_ROOM - 1) / TSR_LANE_UNIT_ROOM);
}

/* What a WAIT waits for: a value, of which slot (0: its own, n: slot n - 1), and of which fence: 0: home's, n: the away fence of lane n - 1. */
#define TSR_LANE_OWN 255u
#define TSR_LANE_FOLLOW_SLOT_SHIFT 44
#define TSR_LANE_FOLLOW_SHIFT 56
static inline uint64_t tsr_lane_follow(const struct tsr_lane_record *wait)
{
    return wait->value | (uint64_t)wait->shared_bytes << TSR_LANE_FOLLOW_SLOT_SHIFT |
           (uint64_t)wait->function << TSR_LANE_FOLLOW_SHIFT;
}

enum tsr_lane_time_state { TSR_LANE_TIME_OPEN, TSR_LANE_TIME_KNOWN, TSR_LANE_TIME_UNKNOWN };

static inline struct tsr_lane_ring *tsr_lane_ring_of(struct tsr_lane *lane, uint32_t stream)
{
    return &lane->rings[stream % TSR_LANE_RINGS];
}

static inline struct tsr_lane_record *tsr_lane_record_at(struct tsr_lane_ring *ring, uint64_t position)
{
    return (struct tsr_lane_record *)(ring->records + (position & (TSR_LANE_RING_BYTES - 1)));
}

/* The room of a unit after a record. */
static inline void *tsr_lane_behind(struct tsr_lane_record *record, uint32_t unit)
{
    return (uint8_t *)(record + 1 + unit) + TSR_LANE_UNIT - TSR_LANE_UNIT_ROOM;
}

/* For the reader: whether there is a record at that position. */
static inline bool tsr_lane_is_ready(struct tsr_lane_ring *ring, uint64_t position)
{
    return __atomic_load_n(&tsr_lane_record_at(ring, position)->stamp, __ATOMIC_SEQ_CST) == position + 1;
}

static inline bool tsr_lane_is_fence(uint16_t kind)
{
    return kind == TSR_LANE_WAIT || kind == TSR_LANE_SIGNAL;
}

/* For the reader: releases the space, unless another reader has. */
static inline void tsr_lane_give_back(struct tsr_lane_ring *ring, uint64_t from, uint64_t end)
{
    __atomic_compare_exchange_n(&ring->head, &from, end, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

#define TSR_LANE_PARDONED 2u                /* nobody carries them out, and the application goes on with other executors */
#define TSR_LANE_OPEN (UINT64_MAX / 2)      /* value of an open fence: all waits for it are over */
#define TSR_LANE_UNSETTLED UINT64_MAX
#define TSR_LANE_PULSE_NS 50000000ull       /* between beats */
#define TSR_LANE_LONGEST_PAUSE_NS 700000000ull /* without a beat: the executor does not run */

#endif
