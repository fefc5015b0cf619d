/* Each thread's stack of contexts. Every entry holds a reference; what a thread leaves behind is put back when it ends. */
#include <pthread.h>

#include "base/vec.h"

#include "context_object.h"

struct stack {
    TSR_VEC(struct tsr_context *) contexts;
};

static __thread struct stack *mine;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void stack_destroy(void *value)
{
    struct stack *stack = value;
    for (size_t i = 0; i < stack->contexts.count; i++)
        tsr_context_unref(stack->contexts.data[i]);
    tsr_vec_fini(&stack->contexts);
    free(stack);
    mine = NULL;
}

static void key_make(void)
{
    pthread_key_create(&key, stack_destroy);
}

static struct stack *stack_get(void)
{
    if (!mine) {
        pthread_once(&key_once, key_make);
        mine = calloc(1, sizeof *mine);
        if (mine)
            pthread_setspecific(key, mine);
    }
    return mine;
}

struct tsr_context *tsr_current_top(void)
{
    return mine && mine->contexts.count ? mine->contexts.data[mine->contexts.count - 1] : NULL;
}

CUresult tsr_current_push(struct tsr_context *context)
{
    struct stack *stack = stack_get();
    if (!stack || !tsr_vec_push(&stack->contexts, context))
        return CUDA_ERROR_OUT_OF_MEMORY;
    tsr_context_ref(context);
    return CUDA_SUCCESS;
}

CUresult tsr_current_pop(struct tsr_context **out)
{
    if (!tsr_current_top())
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = tsr_vec_pop(&mine->contexts);
    return CUDA_SUCCESS;
}

CUresult tsr_current_set(struct tsr_context *context)
{
    struct tsr_context *top = tsr_current_top();
    if (context && !top)
        return tsr_current_push(context);
    if (context == top)
        return CUDA_SUCCESS;
    if (context) {
        tsr_context_ref(context);
        mine->contexts.data[mine->contexts.count - 1] = context;
    } else {
        mine->contexts.count--;
    }
    tsr_context_unref(top);
    return CUDA_SUCCESS;
}
