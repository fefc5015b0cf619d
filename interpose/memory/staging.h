/*
 * Staged pulls. Under data order (order/strands.h) a pull is work of the strand that needs the bytes, and happens when that strand gets there. Until
 * then the strand they come from must not overwrite them, although programs use the same memory again and again, and the link is idle. So a pull of moderate size
 * goes in two steps: a stream of ours beside the strand copies the bytes into memory of the pulling GPU that is there for this, as soon as they have been
 * written; the strand copies them from there to their place. Who overwrites them at the source waits for the first step only.
 *
 * The streams beside a stream's strands share a slot of their own (lane/streams.h), and so have fences: an executor's away fence says how far the one there
 * has come; the home fences of all lanes, how far the one at home has.
 */
#ifndef TSR_MEMORY_STAGING_H
#define TSR_MEMORY_STAGING_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "order/strands.h"

struct tsr_lane_client;
struct tsr_stream;
struct tsr_ticket_queue;

#define TSR_STAGED_PULLS 16u /* of a use */

/* The staged pulls of one use. */
struct tsr_staging_use {
    struct tsr_stream *stream; /* held; NULL: its pulls are not staged */
    const struct tsr_ticket_queue *queue;
    struct tsr_lane_client *lane; /* where it goes; NULL: home */
    uint64_t number;              /* of its ticket */
    const uint64_t *needs;        /* by strand: up to which number its work is needed; 0: none is known */
    /* What staging.c keeps. */
    bool begun; /* the stream beside the strand waits for what is needed */
    uint32_t count;
    struct tsr_lane_copy pulls[TSR_STAGED_PULLS]; /* the second steps */
};

/* Constant for a session, from its start. */
extern bool tsr_staging_is_wanted __attribute__((visibility("hidden")));
/* Memory on each GPU, once copies can be made. Memory lock held. Without it nothing is staged. */
void tsr_staging_open(void);
void tsr_staging_forget(void);
/* Queues have been given back, and may be given out again: what was known of their numbers is nothing. With the copies' lock. */
void tsr_staging_settle_locked(void);

/* What follows is called with the stream held, and the copies' lock. */

void tsr_staging_begin(struct tsr_staging_use *use);
/* from: the copy. what: both addresses as the pulling GPU sees them; time: for the lane's record. Errors: NOT_SUPPORTED: it is not to be staged; the driver's, the executors'. */
CUresult tsr_staging_pull(struct tsr_staging_use *use, uint32_t from, const struct tsr_lane_copy *what, uint16_t time);
/* After the last one: the strand copies them to their places when they have come. */
CUresult tsr_staging_end(struct tsr_staging_use *use);

/*
 * The asker's strand is to overwrite what the puller's strand has pulled, up to the number: it waits for the staged pulls. Returns up to which number of the
 * puller's work it must be tied to that strand itself; 0: it need not be.
 */
uint64_t tsr_staging_guard(struct tsr_stream *stream, uint32_t asker, uint32_t puller, uint64_t number, CUresult *result);

#endif
