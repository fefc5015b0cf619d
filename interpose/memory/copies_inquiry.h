/* What the files that carry out a use share (copies_use.c, copies_ask.c, copies_pulls.c, copies_survey.c): what is known of it so far. */
#ifndef TSR_MEMORY_COPIES_INQUIRY_H
#define TSR_MEMORY_COPIES_INQUIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/copies.h"
#include "memory/copies_parts.h"
#include "memory/directory.h"
#include "memory/relay.h"
#include "memory/staging.h"
#include "memory/tickets.h"

struct tsr_inquiry {
    const struct tsr_copies_use *use;
    const struct tsr_order_hold *hold; /* of its stream; NULL: the stream is not held, nothing is changed */
    uint32_t slot;
    uint64_t ticket; /* of the use, once it is applied */
    CUresult result;

    /* What it comes after. */
    struct tsr_copies_waits waits;
    uint32_t ties;                /* bit n: it needs a tie to strand n */
    uint64_t tied[TSR_STRANDS];   /* by strand: up to which number */
    uint64_t needs[TSR_STRANDS];  /* by strand: up to which number its work is needed; 0: none is known */
    uint64_t guards[TSR_STRANDS]; /* by strand: up to which number its pulls must have been made */
    bool shared_reads;            /* it reads memory without a directory, which other strands of its stream may use as well; */
    bool shared_writes;           /* it writes such memory */
    bool exposed;                 /* the host can see what it writes, or change what it reads */

    /* What it does to directories. */
    bool many_leave_gaps;           /* several of its touches */
    bool changes;                   /* one of them changes */
    struct tsr_broadcast broadcast; /* to other copies than the use's own */

    /* Its pulls. */
    const struct tsr_copies *copies; /* into which bytes are pulled */
    bool gathers;                    /* for lack of room in the directory */
    struct tsr_relay relay;          /* from GPUs whose memory this one cannot access */
    uint64_t pulls, bytes, through_host;
    uint64_t gathered; /* of these bytes, those pulled for lack of room */

    /* It is not made: what it would cost is added up. */
    const struct tsr_survey_of *survey_of;
    struct tsr_survey *survey;
};

/* False: no memory. */
bool tsr_inquiry_begin_locked(struct tsr_inquiry *inquiry, const struct tsr_copies_use *use, const struct tsr_order_hold *hold,
                              uint32_t slot);

/* Visits each extent's part of each touch; those that only overwrite come last: the launch may also read the same bytes. */
typedef void tsr_inquiry_visit_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry);
void tsr_inquiry_each_locked(struct tsr_inquiry *inquiry, uint64_t ticket, tsr_inquiry_visit_locked *visit);

/* In the place of a ticket that has not been taken yet: only its queue counts. */
static inline uint64_t tsr_inquiry_no_ticket(const struct tsr_inquiry *inquiry)
{
    return (uint64_t)(inquiry->waits.asker.queue + inquiry->waits.asker.strand) << TSR_TICKET_SHIFT;
}

/* Finds what the use comes after: its waits, its ties and whose pulls it must not overtake. */
void tsr_inquiry_waits_locked(struct tsr_inquiry *inquiry);
/* The same, immediately before the use is applied, which it is if there are no waits: repeats of other uses look again. */
void tsr_inquiry_last_waits_locked(struct tsr_inquiry *inquiry);
/* True: the ticket is of another strand of the same stream, so a tie will do. */
bool tsr_inquiry_tie(struct tsr_inquiry *inquiry, uint64_t ticket);

/* Between these, tsr_inquiry_pull, a directory's listener, issues pulls into `copies`. */
void tsr_inquiry_begin_pulls_locked(const struct tsr_inquiry *inquiry);
void tsr_inquiry_end_pulls_locked(struct tsr_inquiry *inquiry);
void tsr_inquiry_pull(void *context, const struct tsr_pull *pull);
/* Counts what was pulled. */
void tsr_inquiry_report_locked(const struct tsr_inquiry *inquiry);

#endif
