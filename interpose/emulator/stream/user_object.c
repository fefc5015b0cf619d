#include "graph.h"

#include "../context/handles.h"

#include <stdlib.h>

struct tsr_user_object {
    unsigned references; /* atomic; its handle stays valid as long as it exists */
    CUuserObject handle;
    void *pointer;
    CUhostFn destroy;
};

CUresult tsr_user_object_create(void *pointer, CUhostFn destroy, unsigned references, CUuserObject *out)
{
    struct tsr_user_object *object = malloc(sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object = (struct tsr_user_object){references, NULL, pointer, destroy};
    object->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_USER_OBJECT, object, NULL);
    if (!object->handle) {
        free(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = object->handle;
    return CUDA_SUCCESS;
}

static void drop(struct tsr_user_object *object, unsigned count)
{
    if (__atomic_sub_fetch(&object->references, count, __ATOMIC_ACQ_REL))
        return;
    tsr_handle_remove(tsr_handle_table(), TSR_KIND_USER_OBJECT, object->handle);
    object->destroy(object->pointer);
    free(object);
}

void tsr_user_object_ref(struct tsr_user_object *object)
{
    __atomic_fetch_add(&object->references, 1, __ATOMIC_RELAXED);
}

void tsr_user_object_unref(struct tsr_user_object *object)
{
    drop(object, 1);
}

static struct tsr_user_object *find(CUuserObject handle)
{
    return tsr_handle_find(tsr_handle_table(), TSR_KIND_USER_OBJECT, handle);
}

CUresult tsr_user_object_release(CUuserObject handle, unsigned count)
{
    struct tsr_user_object *object = find(handle);
    if (!object || !count || count > __atomic_load_n(&object->references, __ATOMIC_ACQUIRE))
        return CUDA_ERROR_INVALID_VALUE;
    drop(object, count);
    return CUDA_SUCCESS;
}

CUresult tsr_user_object_retain(CUuserObject handle, unsigned count)
{
    struct tsr_user_object *object = find(handle);
    if (!object || !count)
        return CUDA_ERROR_INVALID_VALUE;
    __atomic_fetch_add(&object->references, count, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult tsr_graph_retain_object(struct tsr_graph *graph, CUuserObject handle, unsigned count, bool move)
{
    struct tsr_user_object *object = find(handle);
    if (!object || !count || (move && count > __atomic_load_n(&object->references, __ATOMIC_ACQUIRE)))
        return CUDA_ERROR_INVALID_VALUE;
    if (!tsr_vec_reserve(&graph->objects, graph->objects.count + count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        (void)tsr_vec_push(&graph->objects, object);
    if (!move)
        __atomic_fetch_add(&object->references, count, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult tsr_graph_release_object(struct tsr_graph *graph, CUuserObject handle, unsigned count)
{
    struct tsr_user_object *object = find(handle);
    unsigned held = 0;
    for (size_t i = 0; i < graph->objects.count; i++)
        held += graph->objects.data[i] == object;
    if (!object || !count || count > held)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = graph->objects.count, left = count; left; i--)
        if (graph->objects.data[i - 1] == object) {
            tsr_vec_remove_swap(&graph->objects, i - 1);
            left--;
        }
    drop(object, count);
    return CUDA_SUCCESS;
}
