/*
 * Strands: the parts of an application's stream on GPUs. Strand 0 is the stream at home, strand 1 + k its slot on lane k.
 *
 * Under stream order a stream has work on one lane at a time: whenever it goes elsewhere, the next strand waits for the last one.
 * Under data order (tsr_order_by_data) strands run beside each other. Work whose touches are known is *tracked*: it comes after what the
 * directory says (memory/copies.h), by ties between strands. All else at home joins every strand first, and afterwards every strand forks
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

/* Lanes' streams signal; what must wait for them at home has not yet. */
CUresult tsr_strands_signal(struct tsr_stream *stream);
/* The same, and the stream at home waits for them, unless it is foreign. */
CUresult tsr_strands_join(struct tsr_stream *stream);
/* The same for a stream that `waiter` waits for: one that is foreign cannot be made to wait itself. */
CUresult tsr_strands_join_for(struct tsr_stream *stream, const struct tsr_stream *waiter);
/* These lanes' work is complete, or nobody's business any more. */
void tsr_strands_settle(struct tsr_stream *stream, uint32_t lanes);
/* The same of those that have signalled and are seen to be complete. */
void tsr_strands_settle_complete(struct tsr_stream *stream);

/* The stream's next work can be posted to the lane. Errors: NOT_SUPPORTED: it must stay home; the driver's; the executor's. */
CUresult tsr_strands_depart(struct tsr_stream *stream, struct tsr_lane_client *lane);

/* The same where it has forked already. */
void tsr_strands_go_on(struct tsr_stream *stream, struct tsr_lane_client *lane);

/* Under data order: what `to` is given from now on comes after all that `from` has been given. */
CUresult tsr_strands_tie(struct tsr_stream *stream, uint32_t from, uint32_t to);

/* Who numbers strands' work hears that all strands have been joined, so that what any is given from now on comes after all before; and that a
   strand has waited for strand 0. */
struct tsr_strands_listener {
    void (*joined)(struct tsr_stream *stream);
    void (*forked)(struct tsr_stream *stream, uint32_t strand);
};
/*
 * A mark: who comes after a strand's work up to a number need not come after all that it has been given since. Of the strand at home only
 * while all lanes have forked. after_mark: a tie by the first mark that will do; gives its number. 0: there is none.
 */
CUresult tsr_strands_mark(struct tsr_stream *stream, uint32_t strand, uint64_t number);
/* What the lane's away fence holds when its work up to the number is done. */
CUresult tsr_strands_reach(struct tsr_stream *stream, uint32_t strand, uint64_t number, uint64_t *value);
uint64_t tsr_strands_after_mark(struct tsr_stream *stream, uint32_t from, uint64_t number, uint32_t to, CUresult *result);

void tsr_strands_listen(const struct tsr_strands_listener *listener);

/* A session begins: nothing is away. */
void tsr_strands_start(bool by_data);

#endif
