/*
 * Strands: the parts of an application's stream on the GPUs. Strand 0 is the stream at home, strand 1 + k its slot on lane k.
 *
 * Under stream order, a stream has work on one GPU at a time: when it goes to another one, the next strand waits for the last one. Under data order
 * (tsr_order_by_data), strands run concurrently. Work whose access set is known is *tracked*: it waits only for what the directory names
 * (memory/copies.h), by ties between strands. All other work at home joins every strand first, and afterwards every strand forks
 * again: it waits for home before it is given more. A thread's own default stream is always in stream order.
 *
 * The caller holds the stream (order.h).
 */
#ifndef TSR_ORDER_STRANDS_H
#define TSR_ORDER_STRANDS_H

#include "api/driver.h"
#include "lane/lane_client.h"
#include "lane/streams.h"

#include <stdbool.h>
#include <stdint.h>

#define TSR_STRANDS (1u + TSR_LANES)

/* Constant for a session. */
extern bool tsr_order_by_data __attribute__((visibility("hidden")));

static inline bool tsr_strands_are_apart(const struct tsr_stream *stream)
{
    return tsr_order_by_data && stream->kind != TSR_STREAM_OWN;
}

/* Streams with work that home must join, and those of a kind. Takes no lock. */
bool tsr_strands_any_away(void);
uint32_t tsr_strands_away_of(enum tsr_stream_kind kind);

/* Another thread cannot enqueue in a thread's own stream. */
bool tsr_strands_are_foreign(const struct tsr_stream *stream);

/* The lanes' streams signal; nothing at home waits for that yet. */
CUresult tsr_strands_signal(struct tsr_stream *stream);
/* They signal, without being joined: what waits for all of them. */
CUresult tsr_strands_add_waits(struct tsr_stream *stream, CUstreamBatchMemOpParams *waits, unsigned *count);
/* The same, and the stream at home waits for them, unless it is foreign. */
CUresult tsr_strands_join(struct tsr_stream *stream);
/* The same for a stream that `waiter` waits for: a foreign stream cannot be made to wait itself. */
CUresult tsr_strands_join_for(struct tsr_stream *stream, const struct tsr_stream *waiter);
/* The work on these lanes is complete, or need not be waited for any more. */
void tsr_strands_settle(struct tsr_stream *stream, uint32_t lanes);
/* The same for lanes that have signalled and whose work is found to be complete. */
void tsr_strands_settle_complete(struct tsr_stream *stream);

/* Orders the stream's next work on the lane after its earlier work. Errors: NOT_SUPPORTED: it must stay home; the driver's; the executor's. */
CUresult tsr_strands_depart(struct tsr_stream *stream, struct tsr_lane_client *lane);

/* The same if the strand has forked already. */
void tsr_strands_go_on(struct tsr_stream *stream, struct tsr_lane_client *lane);

/* Set of lanes: the strands there get work that nobody has been told of yet, after whatever they have signalled. */
void tsr_strands_give(struct tsr_stream *stream, uint32_t lanes);

/* Under data order, a tie: work that `to` is given from now on comes after all work that `from` has been given. */
CUresult tsr_strands_tie(struct tsr_stream *stream, uint32_t from, uint32_t to);

/* Called when all strands have been joined, so that work that any of them is given from now on comes after all earlier work; and when a strand has
   waited for strand 0. For the code that numbers the work of strands. */
struct tsr_strands_listener {
    void (*joined)(struct tsr_stream *stream);
    void (*forked)(struct tsr_stream *stream, uint32_t strand);
};
/*
 * A mark: a fence after a strand's work up to a number, if there is none yet, so that work which needs only that need not wait for what the strand was given since. For the
 * strand at home only while all lanes have forked. after_mark: a tie to the first mark that is late enough; returns its number. 0: there is none.
 */
CUresult tsr_strands_mark(struct tsr_stream *stream, uint32_t strand, uint64_t number);
/* The fence of the first mark that is late enough; 0: there is none. */
uint64_t tsr_strands_marked(const struct tsr_stream *stream, uint32_t strand, uint64_t number);
/* What the lane's away fence holds when its work up to the number is done. */
CUresult tsr_strands_reach(struct tsr_stream *stream, uint32_t strand, uint64_t number, uint64_t *value);
/* Work that the strand of `later`, another stream, on the same lane is given from now on comes after its work for which its away fence gets the value. */
CUresult tsr_strands_await(struct tsr_stream *later, uint32_t strand, uint32_t slot, uint64_t value);
uint64_t tsr_strands_after_mark(struct tsr_stream *stream, uint32_t from, uint64_t number, uint32_t to, CUresult *result);

/* The stream, which is held and has been joined, is to be destroyed. */
void tsr_strands_end(struct tsr_stream *stream);
/* Called by that. */
void tsr_strands_at_end(void (*ends)(struct tsr_stream *stream));

void tsr_strands_listen(const struct tsr_strands_listener *listener);

/* A session begins: nothing is away. */
void tsr_strands_start(bool by_data);

#endif
