/*
 * A stream as the parts of stream/ see it. A stream is the chain of its items: each new one waits for the last. On top of that stand
 * the rules of the legacy default stream: work in it waits for all blocking streams of its context, and they wait for it.
 * Streams that have been destroyed stay in their context's list until their last item is complete, so that these rules hold.
 */
#ifndef TSR_STREAM_STREAM_OBJECT_H
#define TSR_STREAM_STREAM_OBJECT_H

#include "item.h"
#include "tips.h"

struct tsr_capture;
struct tsr_event;

struct tsr_emulated_stream {
    unsigned references;         /* lock */
    struct tsr_streams *streams; /* lock; NULL after the context has been destroyed */
    CUstream handle;             /* NULL after destruction; CU_STREAM_LEGACY, CU_STREAM_PER_THREAD for the default ones */
    unsigned flags;              /* CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING */
    int priority;
    uint64_t id;
    uint64_t thread;             /* of a per-thread default stream, else 0 */
    void *green;                 /* the green context it was created from, or NULL */
    struct tsr_item *last;       /* lock; reference; NULL: never used */
    struct tsr_item **recent;    /* lock; references; as many as its queue holds; NULL: any number */
    uint64_t submitted;          /* lock; of those */
    struct tsr_capture *capture; /* lock; reference; what it captures into */
    tsr_tips tips;               /* lock; while capturing: the nodes its next one depends on */
    CUstreamAttrValue access_policy;
    CUsynchronizationPolicy sync_policy;
    CUlaunchMemSyncDomain memory_domain;
    CUlaunchMemSyncDomainMap memory_domains;
    bool destroyed;                        /* lock */
    struct tsr_emulated_stream *next;      /* lock; of the context */
    struct tsr_emulated_stream *of_thread; /* its thread's; the next of the thread's default streams */
};

/* The streams of one context. */
struct tsr_streams {
    struct tsr_context *context;
    struct tsr_emulated_stream *first; /* lock */
    struct tsr_emulated_stream *legacy;
    struct tsr_item *oldest, *newest; /* lock; incomplete items in order of submission */
    struct tsr_event *events;         /* lock */
    uint64_t latest_ns;               /* lock; latest end of a complete item */
    bool dying;                       /* lock; the context is being destroyed */
};

#endif
