/*
 * The directory of an extent of which several GPUs have a copy: which copies hold the current value of which bytes, as a cache directory says it
 * of lines, but by ranges of bytes. It only decides: it knows neither driver nor clock nor locks, and moves nothing.
 *
 * A sorted array of cells covers the extent. All bytes of a cell have the same holders, which are the copies that have their current value. The
 * copy that was written last, the source, is always one of them, and the one that others pull from. Only a launch that overwrites rows in a copy
 * that does not hold the bytes between them makes a cell of two parts: the rows, and the gaps, which stay with their holders. The parts become
 * one when they have the same holders again, as when the gaps are overwritten there, too. A use of other rows of such a cell first pulls all that
 * its copy lacks.
 *
 * For each use by a launch or copy, the directory says which bytes must be pulled, and which earlier pieces of work the use must come after
 * although the program does not order them: the writers of what is pulled (what is known of launches is an over-approximation), and pulls
 * that are on their way into the copy.
 *
 * A piece of work has a ticket, never 0: its queue, in which work is done in order, and its number in the queue, which grows. Work of different
 * queues may write the same bytes of one copy, as far as anybody knows; so a cell remembers the last ticket of each of a few queues.
 *
 * Work that repeats the same use need not announce it each time, as long as tsr_directory_look would find that nothing changes: its ticket
 * then stands for all tickets of its queue until tsr_directory_freeze says which was the last.
 *
 * There are at most TSR_DIRECTORY_CELLS cells: a use that would need more gathers the whole extent in the copy that it uses.
 */
#ifndef TSR_MEMORY_DIRECTORY_H
#define TSR_MEMORY_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tessera/place.h>

#include "base/vec.h"
#include "memory/rows.h"

#define TSR_DIRECTORY_COPIES 16u
#ifndef TSR_DIRECTORY_CELLS
#define TSR_DIRECTORY_CELLS 4096u
#endif
#define TSR_DIRECTORY_WRITERS 4u
#define TSR_DIRECTORY_HINTS 128u /* a power of two */
#define TSR_TICKET_SHIFT 48                        /* a ticket: the queue above it, the number below */
#define TSR_TICKET_LATEST ((1ull << TSR_TICKET_SHIFT) - 1) /* the number of a writer that repeats */

/* Bytes of one cell that have the same holders. */
struct tsr_part {
    uint64_t writers[TSR_DIRECTORY_WRITERS]; /* of the source: the last ticket of each queue; from the first 0 on, none */
    uint16_t holders;                        /* bit n: copy n */
    uint8_t source;                          /* one of the holders: the copy that was written last */
};

struct tsr_cell {
    uint64_t first;           /* ends where the next one begins */
    struct tsr_rows rows;     /* the bytes of the first part; stride 0: all bytes */
    struct tsr_part parts[2]; /* the rows; the gaps between them, if the cell has two parts */
    uint64_t
        arrivals[TSR_DIRECTORY_COPIES]; /* by copy: ticket of the last pull into it, whether or not it still holds; 0: none */
    uint16_t origins[TSR_DIRECTORY_COPIES]; /* by copy: bit n: pulls into it came from copy n, since all work was complete */
};

struct tsr_directory {
    uint64_t bytes; /* 0: not started */
    uint32_t most;  /* cells */
    uint8_t base;   /* a copy that there always is: what others pull from, where it holds the bytes as well */
    bool repeats;   /* a writer may be one that repeats */
    struct {
        struct tsr_cell *data;
        size_t count, capacity;
    } cells;
    uint16_t hints[TSR_DIRECTORY_HINTS]; /* where look-ups found their offsets last, by a hash of these */
};
_Static_assert(TSR_DIRECTORY_CELLS <= UINT16_MAX, "a hint is the index of a cell");

/* Further copies that get what a use overwrites: each by work of its own, with that ticket, for which tsr_directory_ask has been asked as well. */
struct tsr_broadcast {
    uint16_t copies;
    uint64_t tickets[TSR_DIRECTORY_COPIES];
};

/* Bytes first to end, offsets in the extent. */
struct tsr_use {
    uint64_t first, end;
    uint64_t ticket; /* of the work that uses them */
    uint8_t copy;    /* that it uses */
    bool pulls;      /* it may read them, or not overwrite all of them: the copy must hold them */
    bool writes;     /* it may change them: afterwards no other copy holds them */
    bool repeats;    /* as above */
    /* Of a use that overwrites (writes, does not pull): only `width` bytes at every multiple of `stride` from `first`; stride 0: all. */
    uint64_t stride, width;
    bool others_leave_gaps; /* other uses by the same work do: what is between this one's rows may be pulled for them */
    const struct tsr_broadcast *broadcast; /* of a use that overwrites all bytes; NULL: it changes its own copy alone */
};

/* The part of a use in bytes first to end, as at most two uses: the rest of a row that is cut in two, then whole rows. */
unsigned tsr_use_cut(const struct tsr_use *use, uint64_t first, uint64_t end, struct tsr_use out[2]);

struct tsr_pull {
    uint64_t first, end;
    uint64_t stride, width; /* `width` bytes at every multiple of `stride` from `first`, the last ones until `end`; 0: all */
    uint8_t from, to;       /* copies */
    uint64_t writer;        /* ticket of work that wrote the first of them; 0: unknown */
};

static inline uint64_t tsr_pull_rows(const struct tsr_pull *pull)
{
    return pull->stride ? (pull->end - pull->first - pull->width) / pull->stride + 1 : 1;
}

static inline uint64_t tsr_pull_bytes(const struct tsr_pull *pull)
{
    return pull->stride ? tsr_pull_rows(pull) * pull->width : pull->end - pull->first;
}

/* Called with what a use needs. `wait` may be called with a ticket several times. */
struct tsr_directory_listener {
    void (*pull)(void *context, const struct tsr_pull *pull);
    void (*wait)(void *context, uint64_t ticket); /* NULL: nobody wants to know */
    /* As `wait`, for pulls from bytes that the use changes and which the program orders before it. May be NULL. */
    void (*guard)(void *context, uint64_t ticket);
    void *context;
};

/* All of these copies hold all bytes, which have no value yet. False: no memory. */
bool tsr_directory_start(struct tsr_directory *directory, uint64_t bytes, uint16_t holders);
/* The same; source: one of them, which others pull from; base: the copy that there always is. */
bool tsr_directory_start_at(struct tsr_directory *directory, uint64_t bytes, uint16_t holders, uint8_t source, uint8_t base);
void tsr_directory_fini(struct tsr_directory *directory);

static inline uint32_t tsr_ticket_queue_of(uint64_t ticket)
{
    return (uint32_t)(ticket >> TSR_TICKET_SHIFT);
}

/* What the use would change in the cells. Of its ticket only the queue matters, here and in tsr_directory_ask. */
enum tsr_directory_change {
    TSR_DIRECTORY_SAME,
    TSR_DIRECTORY_WRITES, /* only the writers: other work that repeats can go on */
    TSR_DIRECTORY_HOLDS /* the holders, or a writer is forgotten: work that repeats has to look again, and freeze comes first */
};
enum tsr_directory_change tsr_directory_look(const struct tsr_directory *directory, const struct tsr_use *use);

/* No work repeats any more. last: the number of a queue's last ticket so far. */
void tsr_directory_freeze(struct tsr_directory *directory, uint64_t (*last)(uint32_t queue));

/* All work is complete: no use has to wait for it any more. */
void tsr_directory_settle(struct tsr_directory *directory);

/* What the use would need, without changing anything. */
void tsr_directory_ask(const struct tsr_directory *directory, const struct tsr_use *use,
                       const struct tsr_directory_listener *listener);

/* The same, and records the use. Pulls are reported in the order of the cells. */
void tsr_directory_apply(struct tsr_directory *directory, const struct tsr_use *use,
                         const struct tsr_directory_listener *listener);

/* Whether there is room for so many more cells. If not, the next use has to gather. */
bool tsr_directory_has_room(struct tsr_directory *directory, size_t cells);

/* One cell, held by this copy alone; the ticket comes after all earlier work. Needs no memory. ask_all: what gathering needs. */
void tsr_directory_ask_all(const struct tsr_directory *directory, uint8_t copy, const struct tsr_directory_listener *listener);
void tsr_directory_gather(struct tsr_directory *directory, uint8_t copy, uint64_t ticket,
                          const struct tsr_directory_listener *listener);

/* The value of the bytes matters to nobody any more: these copies hold them. Changes holders: work that repeats has to look again. */
void tsr_directory_forget(struct tsr_directory *directory, uint64_t first, uint64_t end, uint16_t holders);

/* Whether the copy holds anything, and whether others hold all of that, too. */
enum tsr_directory_keeps { TSR_DIRECTORY_KEEPS_NOTHING, TSR_DIRECTORY_KEEPS_SHARED, TSR_DIRECTORY_KEEPS_EXCLUSIVE };
enum tsr_directory_keeps tsr_directory_keeps(const struct tsr_directory *directory, uint8_t copy);
/* The copy holds nothing any more. It held nothing alone, and all work is complete. Changes holders. */
void tsr_directory_lose(struct tsr_directory *directory, uint8_t copy);

/* Calls the listener's `pull` for all bytes that the copy holds, as if the copy `to` pulled them from it. */
void tsr_directory_report_held(const struct tsr_directory *directory, uint8_t copy, uint8_t to,
                               const struct tsr_directory_listener *listener);

/* Whether the copy holds bytes first to end, and no pull into it is recorded there. */
bool tsr_directory_holds(const struct tsr_directory *directory, uint64_t first, uint64_t end, uint8_t copy);

/*
 * Where the bytes are that a use reads, for deciding on which GPU it runs (GPUs are numbered like copies): the recently written ones by writer
 * and holders, whether or not a copy lacks them; of all others, how many bytes each copy lacks. If a cell has several writers, its bytes count for
 * the first, and the others have none. If there are more parts than there is room for, the last one stands for several: held where all of them are.
 */
struct tsr_survey {
    uint32_t part_count;
    struct tsr_place_part parts[TSR_PLACE_PARTS];
    uint64_t constants[TSR_DIRECTORY_COPIES];
    /* In a pool (owners.h), by GPU: bytes that it would use in another's memory; and in copies that it does not have yet. */
    uint64_t through_link[TSR_DIRECTORY_COPIES], new_copies[TSR_DIRECTORY_COPIES];
};

void tsr_survey_begin(struct tsr_survey *survey);

struct tsr_survey_of {
    uint16_t copies;                                  /* set of those that the use may run on */
    bool (*is_fresh)(void *context, uint64_t ticket); /* whether that piece of work was recent */
    void *context;
    bool in_pool; /* holders are GPUs that would find the bytes where they look, rather than copies */
};

void tsr_survey_add(struct tsr_survey *survey, uint64_t writer, uint64_t bytes, uint16_t holders);

/* Adds to the survey. The ticket and the copy of the use do not matter. */
void tsr_directory_survey(const struct tsr_directory *directory, const struct tsr_use *use, const struct tsr_survey_of *of,
                          struct tsr_survey *survey);

/* Memory that the cells take. */
static inline uint64_t tsr_directory_memory(const struct tsr_directory *directory)
{
    return directory->cells.capacity * sizeof(struct tsr_cell);
}

#endif
