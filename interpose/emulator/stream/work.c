#include "work.h"

#include <stdlib.h>
#include <string.h>

void tsr_work_release(struct tsr_work *work)
{
    switch (work->kind) {
    case TSR_WORK_KERNEL:
        if (work->kernel.release)
            work->kernel.release(work->kernel.function_owner);
        free(work->kernel.param_bytes);
        break;
    case TSR_WORK_COPY:
        free(work->copy.staging);
        break;
    case TSR_WORK_CALL:
        if (work->call.fn)
            work->call.fn(work->call.data, false);
        break;
    case TSR_WORK_RECORD:
    case TSR_WORK_WAIT:
        work->event.owned->release(work->event.event);
        break;
    case TSR_WORK_VALUES:
        free(work->values.ops);
        break;
    case TSR_WORK_CHILD:
        work->child.owned->release(work->child.graph);
        break;
    default:
        break;
    }
    *work = (struct tsr_work){.kind = TSR_WORK_EMPTY};
}

static void *copy_of(const void *bytes, size_t count)
{
    void *copy = malloc(count ? count : 1);
    if (copy && count)
        memcpy(copy, bytes, count);
    return copy;
}

CUresult tsr_work_clone(const struct tsr_work *work, struct tsr_work *out)
{
    struct tsr_work clone = *work;
    bool done = true;
    switch (work->kind) {
    case TSR_WORK_KERNEL:
        clone.kernel.param_bytes = copy_of(work->kernel.param_bytes, work->kernel.desc.function->param_bytes);
        done = clone.kernel.param_bytes;
        if (done && work->kernel.retain)
            work->kernel.retain(work->kernel.function_owner);
        break;
    case TSR_WORK_COPY:
        if (work->copy.staging) {
            const CUDA_MEMCPY3D_PEER *shape = &work->copy.shape;
            clone.copy.staging = copy_of(work->copy.staging, shape->WidthInBytes * shape->Height * shape->Depth);
            done = clone.copy.staging;
        }
        break;
    case TSR_WORK_CALL:
        return CUDA_ERROR_NOT_SUPPORTED;
    case TSR_WORK_RECORD:
    case TSR_WORK_WAIT:
        work->event.owned->retain(work->event.event);
        break;
    case TSR_WORK_VALUES:
        clone.values.ops = copy_of(work->values.ops, work->values.count * sizeof *work->values.ops);
        done = clone.values.ops;
        break;
    case TSR_WORK_CHILD:
        clone.child.graph = work->child.owned->copy(work->child.graph);
        done = clone.child.graph;
        break;
    default:
        break;
    }
    if (!done)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = clone;
    return CUDA_SUCCESS;
}
