/*
 * Work: one operation of a stream, and at the same time the payload of one graph node.
 *
 * Entry points build a tsr_work and submit it. If the stream captures, it becomes a node; otherwise it is queued and the engine runs it when everything
 * it must wait for is complete. There is one engine thread per process; it takes ready work in submission order across all streams, so a program that
 * submits in a fixed order is executed in a fixed order. Work never runs on the submitting thread. Kernels run in quanta so that a spinning
 * kernel does not keep other streams from running.
 *
 * Virtual time: each stream has a clock; work starts at the maximum of its stream's clock, of what it waits for and of the submitting thread's
 * host clock, occupies its device, copy engine or link (machine/clock.h), and ends at its start plus its duration.
 */
#ifndef TSR_STREAM_WORK_H
#define TSR_STREAM_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "../context/context.h"
#include "../exec/exec.h"

enum tsr_work_kind {
    TSR_WORK_EMPTY,
    TSR_WORK_KERNEL,
    TSR_WORK_COPY,
    TSR_WORK_MEMSET,
    TSR_WORK_HOST,
    TSR_WORK_CALL,
    TSR_WORK_RECORD,
    TSR_WORK_WAIT,
    TSR_WORK_VALUES,
    TSR_WORK_CHILD
};

struct tsr_event;
struct tsr_graph;

/* What is done with an object that work refers to; an object is shared (retain) or copied (copy). */
struct tsr_work_owned {
    void (*retain)(void *object);
    void *(*copy)(void *object); /* NULL: out of memory */
    void (*release)(void *object);
};

struct tsr_work {
    enum tsr_work_kind kind;
    struct tsr_context *context;
    union {
        struct {
            struct tsr_grid_desc desc; /* params points into param_bytes below; start_ns, grid_id set by the engine */
            uint8_t *param_bytes;      /* owned */
            void *function_owner; /* reference that keeps the module's code alive: taken again with retain, put with release */
            void (*retain)(void *function_owner);
            void (*release)(void *function_owner);
            const void *handle; /* the CUfunction or CUkernel the application passed (graph node params) */
            int priority;
            bool programmatic; /* it may begin when the kernel before it in its stream allows it: captured, as an edge */
        } kernel;
        struct {
            CUDA_MEMCPY3D_PEER shape; /* every copy is one; types are HOST, DEVICE or UNIFIED */
            void *staging;            /* owned; what the source held when a pageable copy was submitted, packed; may be NULL */
        } copy;
        struct {
            CUdeviceptr dst;
            size_t pitch, width, height;
            unsigned value, element_bytes;
        } memset; /* width in elements */
        struct {
            CUhostFn fn;
            CUstreamCallback callback;
            CUstream stream;
            void *data;
        } host; /* one of fn and callback; on the callback thread */
        struct {
            void (*fn)(void *data, bool run);
            void *data;
            const char *name;
        } call; /* internal, on the engine; run = false: discarded unrun */
        struct {
            struct tsr_event *event;
            const struct tsr_work_owned *owned;
            unsigned flags;
        } event; /* reference held; made by tsr_event_work_of */
        struct {
            CUstreamBatchMemOpParams *ops;
            unsigned count, next;
            bool waited;
        } values; /* ops owned; done one after the other */
        struct {
            struct tsr_graph *graph;
            const struct tsr_work_owned *owned;
        } child; /* owned; made by tsr_graph_work_of */
    };
};

struct tsr_emulated_stream;

/*
 * CUstream (0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or created) of the current context to stream, reference taken for the calling thread's use until
 * tsr_stream_put. Errors: those of tsr_context_current, INVALID_HANDLE, CONTEXT_IS_DESTROYED.
 */
CUresult tsr_stream_get(CUstream handle, struct tsr_emulated_stream **out);
void tsr_stream_put(struct tsr_emulated_stream *stream);
struct tsr_context *tsr_stream_context(struct tsr_emulated_stream *stream);
bool tsr_stream_capturing(struct tsr_emulated_stream *stream);

/* Moves the contents of *work into the queue (or the captured graph). On error the work is released. Errors: capture errors (STREAM_CAPTURE_*), OUT_OF_MEMORY, sticky. */
CUresult tsr_stream_submit(struct tsr_emulated_stream *stream, struct tsr_work *work);
/* Waits until everything submitted before is complete; returns the context's sticky error if it has one. Capture rules are checked by the caller. */
CUresult tsr_stream_wait(struct tsr_emulated_stream *stream);
/* Everything of the context (all its streams). Used by cuCtxSynchronize, cuMemFree, module unload. */
CUresult tsr_context_wait(struct tsr_context *context);
/* Error if a legacy-synchronising call is made while a stream of this context captures in a mode that forbids it (cuMemAlloc & co under cuThreadExchangeStreamCaptureMode). */
CUresult tsr_capture_check_unsafe_call(struct tsr_context *context);

/* Called on the engine thread after each grid has finished or failed, before it is destroyed; set once, before the first launch (entry/trace.c). */
typedef void tsr_grid_observer(const struct tsr_work *work, const struct tsr_grid *grid);
void tsr_engine_observe_grids(tsr_grid_observer *observer);

void tsr_work_release(struct tsr_work *work); /* frees what the work owns */
CUresult tsr_work_clone(const struct tsr_work *work, struct tsr_work *out);

#endif
