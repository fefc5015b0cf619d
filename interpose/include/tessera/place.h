/*
 * Where does the next launch go, if no policy says so? Decides only: knows neither driver nor machine clock nor locks, and allocates nothing.
 * The process that launches asks it, and so do simulations in Python, which see the same functions through cffi.
 *
 * It keeps a virtual clock per GPU and per link. A launch starts when its GPU has done what it was given, when the writers of what it
 * reads are done, and when what its GPU does not hold has been copied. There are two strategies:
 *
 * - STAY: a launch belongs to the GPU that lacks least of what it reads of freshly made bytes; if nothing is fresh, to the GPU of its
 *   stream's last launch. It leaves only if it ends elsewhere earlier by `lead_ns` and the round trip. The time for which a GPU
 *   would wait for others in order to run it counts twice more, for it is lost to what comes later. What opens a chain of launches
 *   that was joined after less than a lead's work, whenever it was (schedule/chains.h), belongs where the chain beside it is (or,
 *   if it reads little of what other GPUs wrote, where the stream's last launch is, near who will read its results), and leaves only if that
 *   work is worth its results' return trip. What opens a chain takes as long, on each GPU, as the chain before it that
 *   began in the same place; where GPUs differ, a quarter of that is lead enough for such that nobody joins. And it comes after what other streams,
 *   which have opened chains on that GPU, have yet to launch of them.
 * - EARLIEST: it goes where it ends first. Better for programs that are one chain with short branches, worse for all with independent
 *   work further away: that is torn apart.
 *
 * Both are simulated in virtual time with every launch (a *timeline* each); launches follow the one that gets ahead, STAY until then. In
 * either, a launch leaves home only if its results could be back home by the time at which one GPU, alone, would have them: so no chain of
 * choices, each of which looks good, ends later than everything at home. What was gained before may be lost again up to `slack_ns`.
 * What is seen of GPUs (below) moves that time along with their clocks. And a chain may end later by half of its work on a GPU that has nothing to do, while
 * the host is held up by home's full queue: it cannot ask for what would use that GPU better.
 *
 * The strategies are simulated as if bytes of long ago (constants) were everywhere. Really, they are copied as credit allows: the time of each
 * launch that stays home although it would run elsewhere under the strategy that is followed. So all copying of constants together takes no longer
 * than the work that not having them has kept home. They are fetched in the background of such launches, or pulled by the first that can pay.
 *
 * Measured times may all be wrong by the same factor, the *pace*: what measures takes time itself, and the first samples of a program fall into the time in which
 * code is loaded. How wrong they are, shows where the host waits for work that all ran at home; and where launches are seen to have ended (tsr_place_seen): no GPU
 * has done more in a time than fits into it, nor less if it waited for nothing. So the clocks never run far from what really happens.
 *
 * Times are nanoseconds from any one origin. Not for several threads at a time.
 */
#ifndef TESSERA_PLACE_H
#define TESSERA_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/gpus.h>

#define TSR_PLACE_OLD 3000u   /* launches after which what was written counts as constant */
#define TSR_PLACE_PARTS 12u   /* of what a launch reads */
#define TSR_PLACE_KNOWN 8192u /* a power of two: launches that are remembered, */
#define TSR_PLACE_WAYS 2u     /* in places for so many each: queues advance in step, and one would follow in the other's */
#define TSR_PLACE_QUEUE_SHIFT 48 /* tickets: their queue above it */
#define TSR_PLACE_CHAINS 2048u
#define TSR_PLACE_HISTORIES 2048u
#define TSR_PLACE_STREAMS 64u
#define TSR_PLACE_QUEUES 64u

/* What programs' processes and simulations give the rule and the guard, unless set otherwise. The first is the default of TESSERA_LEAD. */
#define TSR_PLACE_LEAD_NS 500000u
#define TSR_PLACE_SLACK_NS 10000000u
#define TSR_PLACE_FENCE_NS 8000u
#define TSR_PLACE_COPY_NS 3000u
#define TSR_PLACE_BYTES_PER_NS 390u /* of a pair of GPUs whose copies were not measured: H200s over NVLink */
#define TSR_GUARD_WINDOW_NS 500000000u
#define TSR_GUARD_REST_NS 20000000u /* the first rest */
#define TSR_GUARD_LONGEST_REST_NS 10000000000ull
#define TSR_GUARD_LEAST_PERMILLE 10u
#define TSR_GUARD_BUDGET_NS 3000000u

/* cffi: begin */
enum tsr_place_strategy { TSR_PLACE_STAY, TSR_PLACE_EARLIEST, TSR_PLACE_STRATEGIES };
enum { TSR_PLACE_ACTUAL = 2, TSR_PLACE_TIMELINES = 3 }; /* the timelines: one of each strategy, and what happens */

struct tsr_place_link {
    double fence_ns; /* until the other GPU sees that work is done */
    double copy_ns;  /* before a copy's first byte is there */
    double ns_per_byte;
};

struct tsr_place_options {
    uint32_t gpus, home;
    uint32_t strategies; /* set of those that may be followed */
    double lead_ns, slack_ns;
    bool careful;                        /* home in time, as above */
    bool queues;                         /* tickets name queues, in which what comes later is done later */
    struct tsr_place_link links[16][16]; /* from, to */
};

/* Fresh bytes of one writer that the launch reads. A writer that is not remembered counts as done. */
struct tsr_place_part {
    uint64_t writer; /* ticket; its queue in the upper 16 bits */
    uint64_t bytes;
    uint32_t holders; /* bit n: GPU n */
};

struct tsr_place_launch {
    uint64_t like;   /* the same for launches that are the same to a program that repeats itself; 0: nothing is known of it */
    uint32_t stream; /* from 1 on; 0: not told */
    uint64_t last;   /* of its stream's last launch; 0: none */
    double now_ns;   /* of the host */
    double after_ns[3]; /* by timeline: it comes after work that is done then, whatever it reads */
    double ns[16];      /* its time, by GPU */
    uint64_t written;
    uint64_t constants[16]; /* bytes that each GPU lacks */
    uint32_t allowed;       /* set of GPUs */
    uint32_t
        shared; /* set of those that have work of other streams, too, and do it side by side: what was given first is not done first */
    bool stays; /* it really goes home, whatever the strategies say */
    bool loose; /* its queue is that of several threads, which are not ordered */
    uint32_t part_count;
    struct tsr_place_part parts[12]; /* TSR_PLACE_PARTS */
};

/* A launch that others may read from. By timeline. */
struct tsr_place_known {
    uint64_t ticket;
    double finish_ns[3], single_ns, shift_ns;
    double busy_ns; /* what its GPU was given until then, by measured times, with it */
    uint16_t holders[3];
    uint8_t gpu[3];
    bool was_read, was_shared;    /* by any launch; by one of an older chain */
    uint64_t chain, like, number; /* number: which of all launches it was */
};

/* A chain of launches (schedule/chains.h). */
struct tsr_place_chain {
    uint64_t number; /* from 1 on, as they begin */
    uint64_t into;   /* the one into which it was joined; 0: into none */
    uint64_t beside; /* that of the launch before its first one; 0: none */
    uint64_t key;    /* of its history */
    uint64_t bytes;  /* that others read of it */
    double work_ns;
    /* By timeline, until when its launches may end on another GPU than home, though one GPU would end sooner; 0: they may not. */
    double late_until_ns[3];
};

/* What chains that begin in the same place are like. */
struct tsr_place_history {
    uint64_t key; /* 0: none */
    float work_ns, bytes;
    bool joins;     /* one was joined into another; of the others only the work is known */
    bool returns;   /* the last one was joined into the chain beside it */
    uint8_t opened; /* since what was seen faded */
    float grown_ns; /* the most work of a chain since then */
};

/* What a stream that opened a chain will still bring of it (schedule/coming.h). */
struct tsr_place_coming {
    uint32_t stream;              /* 0: none */
    uint8_t gpu[3];               /* of its last launch, by timeline */
    double left_ns;               /* home's time */
    double patience_ns, until_ns; /* the stream brings nothing for so long: it is not expected after that any more */
};

/* Where a launch should go. The rest is for who reports where it went. */
struct tsr_place_choice {
    uint32_t gpu;
    uint32_t fetches; /* the GPU to which its constants are to be copied in the background, if it goes home; home: to none */
    struct tsr_place_known own;
    /* What is expected there, as long as nothing else has been asked or reported. */
    double start_ns, finish_ns;
    bool copies;             /* something */
    bool idles;              /* the GPU has nothing else to do until what the launch reads can be copied */
    double chain_ns;         /* home's time of the chain that it opens, as far as is known; */
    bool chain_joins;        /* such chains were joined into others */
    double opened_ns;        /* chain_ns; 0: they were */
    double late_until_ns[3]; /* of that chain */
    uint64_t version;
};

/* What is expected of a launch that has been given to a GPU. */
struct tsr_place_answer {
    double start_ns, finish_ns;
    double single_ns; /* when it would be done on a machine with one GPU */
    uint64_t pulled;  /* bytes that it has to copy, constants too */
};

/* A launch of a GPU that was seen to have ended: what the GPU had been given until then, and between when it did. at_ns 0: none. */
struct tsr_place_sight {
    double busy_ns, since_ns, at_ns;
    bool waits; /* the GPU may have waited for something since */
};

struct tsr_place_timeline {
    double free_ns[16], end_ns; /* when each GPU has done what it was given, and when all have */
    double link_ns[16][16];     /* when each link has: to, from */
    double behind_ns;           /* what the host of this timeline lags behind the real one */
    double single_ns;           /* when one GPU would have done it all; at most slack_ns after the timeline */
    double lost_ns, checked_ns; /* its end's advance, the longer ago the less; and its end, when last compared */
};

struct tsr_place {
    struct tsr_place_options options;
    struct tsr_place_timeline timelines[3];
    double single_ns, single_behind_ns; /* the clock and the host of a machine with one GPU */
    double pauses_ns;                   /* for which it had nothing to do for long */
    double held_up_ns;                  /* until when the host was, by home's full queue; 0: never */
    double shift_ns[16];                /* what is known of each GPU's lateness */
    double credit_ns[16];               /* for copying constants */
    double work_ns[16], lately_ns[16];  /* launches' times on each GPU, the earlier the less; those that are not yet in them */
    double slowness[16];                /* of each GPU, of home's, by these; 1: they are alike */
    double pace;                        /* real over measured time of work: */
    double real_ns, measured_ns;        /* of the last from which it was learnt */
    double given_ns, given_busy_ns;     /* to GPUs since the host waited; and by measured times */
    bool given_away;                    /* some of it not to home */
    double busy_ns[16];                 /* each GPU's measured time of all that it was given */
    struct tsr_place_sight sights[16];  /* by GPU */
    uint32_t strategy, launches, ahead; /* that is followed; since the last comparison; comparisons that another was ahead */
    uint64_t decided[16];               /* launches, by GPU */
    /* TSR_PLACE_QUEUES, by queue: the latest ticket that was seen to have ended, or the host has waited for. */
    uint64_t over[64];
    uint64_t loose;                     /* set of those that threads share */
    uint64_t taken;                     /* launches */
    uint64_t version;                   /* counts what changes the clocks of what really happens */
    struct tsr_place_known known[8192]; /* TSR_PLACE_KNOWN */
    uint64_t chain_count;
    struct tsr_place_chain chains[2048];      /* TSR_PLACE_CHAINS */
    struct tsr_place_history histories[2048]; /* TSR_PLACE_HISTORIES */
    uint32_t coming_count;                    /* streams */
    struct tsr_place_coming coming[64];       /* TSR_PLACE_STREAMS */
};

/*
 * The guard: is anything gained at all? Compares, window by window, when all would be done on one GPU with when it will be; where a
 * window is not won, all launches are issued at home for a time that grows with each such window. At once where much is lost. A rest goes on, too,
 * while the strategy that would be followed promises nothing.
 */
struct tsr_guard_options {
    double window_ns, rest_ns, longest_rest_ns;
    double least;     /* share of a window that must be won, and of a rest that must have been promised */
    double budget_ns; /* that a window may lose before it ends */
};

/* When all would be done on a machine with one GPU, will be done, and would be done under the strategy that is followed had it always been. */
struct tsr_guard_clocks {
    double single_ns, end_ns, promised_ns;
};

struct tsr_guard {
    struct tsr_guard_options options;
    struct tsr_guard_clocks began;  /* the window, or the rest */
    struct tsr_guard_clocks waited; /* when the host had waited last */
    double until_ns, rest_ns;
    double credit_ns; /* what the window before has gained, which this one may lose again */
    bool started, rests, excused;
    uint32_t excuses;              /* since a window was won */
    uint64_t windows, won, rested; /* rested: launches */
};
/* cffi: end */

/* The first of the places that a launch may be remembered in, of TSR_PLACE_KNOWN; the others follow. */
static inline uint32_t tsr_place_known_at(uint64_t ticket)
{
    uint64_t spread = ticket + (ticket >> TSR_PLACE_QUEUE_SHIFT) * 40503u;
    return (uint32_t)(spread % (TSR_PLACE_KNOWN / TSR_PLACE_WAYS)) * TSR_PLACE_WAYS;
}

#define TSR_PLACE_API __attribute__((visibility("default"))) /* exported by libtessera_place.so.1 only */

TSR_PLACE_API void tsr_place_init(struct tsr_place *place, const struct tsr_place_options *options);
/* Where the launch should go. The strategies' timelines go on with it. */
TSR_PLACE_API void tsr_place_choose(struct tsr_place *place, const struct tsr_place_launch *launch,
                                    struct tsr_place_choice *choice);
/* It was given to the GPU, which may be another one. ticket: its own; 0: nobody will wait for it. */
TSR_PLACE_API struct tsr_place_answer tsr_place_take(struct tsr_place *place, const struct tsr_place_launch *launch,
                                                     struct tsr_place_choice *choice, uint32_t gpu, uint64_t ticket);
/* Its constants are being copied to the GPU, as chosen. */
TSR_PLACE_API void tsr_place_fetched(struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t gpu);
/* A launch was seen to end. */
TSR_PLACE_API void tsr_place_ended(struct tsr_place *place, uint64_t ticket, double at_ns);
/* It was seen not to have ended at since_ns, and to have ended at at_ns. Of a GPU that runs only this launch's stream. busy: which has not done all that it was given. */
TSR_PLACE_API void tsr_place_seen(struct tsr_place *place, uint64_t ticket, double since_ns, double at_ns, bool busy);
/* It was seen not to have ended. */
TSR_PLACE_API void tsr_place_pending(struct tsr_place *place, uint64_t ticket, double at_ns);
/* All that was given to all GPUs has ended. */
TSR_PLACE_API void tsr_place_idle(struct tsr_place *place, double at_ns);
/* What is seen of this GPU from now on has nothing to do with what was seen before. */
TSR_PLACE_API void tsr_place_unseen(struct tsr_place *place, uint32_t gpu);
/* The host began to wait for a launch, and went on. If it was not held up, that shows only that the launch ended no later. */
TSR_PLACE_API void tsr_place_waited(struct tsr_place *place, uint64_t ticket, double began_ns, double ended_ns);
/* The same, and other streams had work there when it began to: GPUs take turns at that, so nothing is learnt of how long work takes, nor of when the rest is done. */
TSR_PLACE_API void tsr_place_waited_beside(struct tsr_place *place, uint64_t ticket, double began_ns, double ended_ns);
/* Where a launch went; UINT32_MAX: it is not remembered. */
TSR_PLACE_API uint32_t tsr_place_gpu(const struct tsr_place *place, uint64_t ticket);
/*
 * Giving the home GPU a launch held the host up: its queue was full. In a timeline in which it has less to do there, the host is not, or less.
 */
TSR_PLACE_API void tsr_place_held_up(struct tsr_place *place, double began_ns, double ended_ns);
/* When a launch will be done; 0: it is not remembered. */
TSR_PLACE_API double tsr_place_finish(const struct tsr_place *place, uint64_t ticket);
/* When all that was given to GPUs is done. */
TSR_PLACE_API double tsr_place_end(const struct tsr_place *place);
TSR_PLACE_API struct tsr_guard_clocks tsr_place_clocks(const struct tsr_place *place);
/* For the guard, after a launch was taken: the same without the program's pauses, in which nothing can be won or lost. */
TSR_PLACE_API struct tsr_guard_clocks tsr_place_clocks_at_work(const struct tsr_place *place);

TSR_PLACE_API void tsr_guard_init(struct tsr_guard *guard, const struct tsr_guard_options *options);
/* Code for a GPU or its copy of memory is being made, which happens once: if this window is not won, rests get no longer for it. */
TSR_PLACE_API void tsr_guard_excuse(struct tsr_guard *guard);
/*
 * The host has waited, which shows how late GPUs are. That came about since it waited before, not in this window alone: if something was gained since then nevertheless,
 * the window has lost nothing yet.
 */
TSR_PLACE_API void tsr_guard_waited(struct tsr_guard *guard, const struct tsr_guard_clocks *now);
/* Whether the next launch stays home. */
TSR_PLACE_API bool tsr_guard_next(struct tsr_guard *guard, const struct tsr_guard_clocks *now);

#endif
