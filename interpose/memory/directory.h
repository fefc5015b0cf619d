/*
 * Who holds which bytes of an extent that several GPUs have a copy of. Decides only: knows neither driver nor clock nor locks, moves nothing.
 *
 * A sorted array of cells covers the extent. All bytes of a cell have the same holders: the copies that have their value; the last writer's
 * copy is always one of them, and the one that others pull from. Only who overwrites rows in a copy that does not hold what is between them
 * makes a cell of two parts: the rows, and their gaps, which stay with those who held them. They become one when they have the same holders
 * again, as when the gaps are overwritten there, too. Of other rows in such a cell, all that the copy lacks is pulled first. A use by a launch or copy is told which bytes it must pull, and which
 * earlier pieces of work it must come after although the program does not order them: the writers of what it pulls, since what is
 * known of launches are over-approximations, and pulls that are on their way into its own copy.
 *
 * A piece of work is a ticket, never 0: a queue, whose pieces of work come one after the other, and a number of the queue's that grows. Pieces
 * of different queues may write the same bytes of one copy, as far as anybody knows: a cell knows its last ticket of each of a few.
 *
 * Who repeats the same use again and again need not say so each time, as long as tsr_directory_look would find that it changes nothing: its
 * ticket then stands for all of its queue's until tsr_directory_freeze says which was the last.
 *
 * There are TSR_DIRECTORY_CELLS cells at most: a use that would need more brings the whole extent together where it runs.
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
#define TSR_TICKET_SHIFT 48                        /* a ticket: the queue above it, the number below */
#define TSR_TICKET_LATEST ((1ull << TSR_TICKET_SHIFT) - 1) /* the number of a writer who repeats */

/* Bytes of one cell that have the same holders. */
struct tsr_part {
    uint64_t writers[TSR_DIRECTORY_WRITERS]; /* of the source: the last ticket of each; from the first 0 on, none */
    uint16_t holders;                        /* bit n: copy n */
    uint8_t source;                          /* a holder: the last writer's copy */
};

struct tsr_cell {
    uint64_t first;           /* ends where the next one begins */
    struct tsr_rows rows;     /* the bytes of the first part; stride 0: all */
    struct tsr_part parts[2]; /* the rows; what is between them, if there is anything */
    uint64_t
        arrivals[TSR_DIRECTORY_COPIES]; /* by copy: ticket of the last pull into it, whether or not it still holds; 0: none */
    uint16_t origins[TSR_DIRECTORY_COPIES]; /* by copy: bit n: pulls into it came from copy n, since all work was complete */
};

struct tsr_directory {
    uint64_t bytes; /* 0: not started */
    uint32_t most;  /* cells */
    bool repeats;   /* a writer may be one who repeats */
    struct {
        struct tsr_cell *data;
        size_t count, capacity;
    } cells;
};

/* Bytes first to end, offsets in the extent. */
struct tsr_use {
    uint64_t first, end;
    uint64_t ticket; /* of who uses them */
    uint8_t copy;    /* that it uses */
    bool pulls;      /* it may see what they held, or leave it */
    bool writes;     /* it may change them: then no other copy holds them any more */
    bool repeats;    /* as above */
    /* Of an overwritten use (writes, does not pull): only `width` bytes at every multiple of `stride` from `first` are; 0: all. */
    uint64_t stride, width;
};

/* What of a use lies in bytes first to end, as at most two: what is left of a row that is cut in two, then rows from their beginning on. */
unsigned tsr_use_cut(const struct tsr_use *use, uint64_t first, uint64_t end, struct tsr_use out[2]);

struct tsr_pull {
    uint64_t first, end;
    uint64_t stride, width; /* `width` bytes at every multiple of `stride` from `first`, the last ones until `end`; 0: all */
    uint8_t from, to;       /* copies */
    uint64_t writer;        /* ticket of one that wrote the first of them; 0: unknown */
};

static inline uint64_t tsr_pull_rows(const struct tsr_pull *pull)
{
    return pull->stride ? (pull->end - pull->first - pull->width) / pull->stride + 1 : 1;
}

static inline uint64_t tsr_pull_bytes(const struct tsr_pull *pull)
{
    return pull->stride ? tsr_pull_rows(pull) * pull->width : pull->end - pull->first;
}

/* Who hears of what a use needs. `wait` may hear of a ticket several times. */
struct tsr_directory_listener {
    void (*pull)(void *context, const struct tsr_pull *pull);
    void (*wait)(void *context, uint64_t ticket);
    /* The same of pulls from bytes that the use is to change, which the program orders before it. NULL: nobody needs to know. */
    void (*guard)(void *context, uint64_t ticket);
    void *context;
};

/* All of these copies hold all bytes, whose value nobody knows yet. False: no memory. */
bool tsr_directory_start(struct tsr_directory *directory, uint64_t bytes, uint16_t holders);
void tsr_directory_fini(struct tsr_directory *directory);

static inline uint32_t tsr_ticket_queue_of(uint64_t ticket)
{
    return (uint32_t)(ticket >> TSR_TICKET_SHIFT);
}

/* What of the cells the use would change. Of its ticket only the queue matters, here and in what it asks. */
enum tsr_directory_change {
    TSR_DIRECTORY_SAME,
    TSR_DIRECTORY_WRITES, /* only who wrote: another who repeats can go on */
    TSR_DIRECTORY_HOLDS /* also who holds, or that a writer is forgotten: who repeats has to look again, and freeze comes first */
};
enum tsr_directory_change tsr_directory_look(const struct tsr_directory *directory, const struct tsr_use *use);

/* Nobody repeats any more: the number of each queue's last ticket so far. */
void tsr_directory_freeze(struct tsr_directory *directory, uint64_t (*last)(uint32_t queue));

/* All work is complete: nobody comes after it any more. */
void tsr_directory_settle(struct tsr_directory *directory);

/* What the use would need, without changing anything. */
void tsr_directory_ask(const struct tsr_directory *directory, const struct tsr_use *use,
                       const struct tsr_directory_listener *listener);

/* The same, and then it is as if it had happened. Pulls come in the order of the cells. */
void tsr_directory_apply(struct tsr_directory *directory, const struct tsr_use *use,
                         const struct tsr_directory_listener *listener);

/* Whether that many more cells may come. If not, the next use is to gather. */
bool tsr_directory_has_room(struct tsr_directory *directory, size_t cells);

/* One cell for all that only this copy holds; it comes after all that was. Needs no memory. ask_all: what that needs. */
void tsr_directory_ask_all(const struct tsr_directory *directory, uint8_t copy, const struct tsr_directory_listener *listener);
void tsr_directory_gather(struct tsr_directory *directory, uint8_t copy, uint64_t ticket,
                          const struct tsr_directory_listener *listener);

/* What the bytes held matters to nobody any more: everybody holds them. A change of holders, for who repeats. */
void tsr_directory_forget(struct tsr_directory *directory, uint64_t first, uint64_t end, uint16_t holders);

/* Whether others hold all that the copy holds, and whether that is anything. */
enum tsr_directory_keeps { TSR_DIRECTORY_KEEPS_NOTHING, TSR_DIRECTORY_KEEPS_DOUBLES, TSR_DIRECTORY_KEEPS_ONLY_ONES };
enum tsr_directory_keeps tsr_directory_keeps(const struct tsr_directory *directory, uint8_t copy);
/* The copy holds nothing any more: it kept no only ones, and all work is complete. A change of holders. */
void tsr_directory_lose(struct tsr_directory *directory, uint8_t copy);

/* Tells the listener's `pull` of all bytes that the copy holds, as if another one, `to`, pulled them from it. */
void tsr_directory_tell_held(const struct tsr_directory *directory, uint8_t copy, uint8_t to,
                             const struct tsr_directory_listener *listener);

/* Whether the copy holds all bytes of the use, and no pull into it is recorded. */
bool tsr_directory_holds(const struct tsr_directory *directory, uint64_t first, uint64_t end, uint8_t copy);

/*
 * What a use would find that may run on any of some copies' GPUs (which are numbered like the copies): what was written lately, by writer and
 * holders, whether or not a copy lacks it; and how many bytes of the rest each copy lacks. Of several writers of a cell, the bytes count for the
 * first, and the others have none. With more than there is room for, the last part stands for several: it is held where all of them are.
 */
struct tsr_survey {
    uint32_t part_count;
    struct tsr_place_part parts[TSR_PLACE_PARTS];
    uint64_t constants[TSR_DIRECTORY_COPIES];
};

struct tsr_survey_of {
    uint16_t copies;                                  /* set of those that are asked for */
    bool (*is_fresh)(void *context, uint64_t ticket); /* whether that piece of work was lately */
    void *context;
};

/* Adds to the survey. Of the use its ticket and copy do not matter. */
void tsr_directory_survey(const struct tsr_directory *directory, const struct tsr_use *use, const struct tsr_survey_of *of,
                          struct tsr_survey *survey);

/* Memory that the cells take. */
static inline uint64_t tsr_directory_memory(const struct tsr_directory *directory)
{
    return directory->cells.capacity * sizeof(struct tsr_cell);
}

#endif
