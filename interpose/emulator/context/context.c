/* See context.h and context_object.h. */
#include <pthread.h>
#include <stdlib.h>

#include "context_object.h"
#include "handles.h"

struct slot {
    void *value;
    void (*destroy)(struct tsr_context *, void *);
};

struct tsr_context {
    uint64_t references;       /* atomic */
    CUcontext handle;          /* constant */
    uint32_t device, sm_count; /* constant */
    struct tsr_context *root;  /* constant; a reference unless it is the context itself */
    bool primary;              /* constant */
    uint32_t alive;            /* atomic; a primary context comes back to life */
    unsigned flags;            /* atomic */
    CUresult sticky;           /* atomic */
    uint64_t id;               /* atomic; a new one for each life */
    pthread_mutex_t lock;
    struct slot slots[TSR_SLOT_COUNT]; /* lock; value atomic for readers */
    struct tsr_context_settings settings;
};

static uint64_t next_id = 1; /* atomic */

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER; /* the three below */
static struct tsr_context *primary[TSR_MACHINE_DEVICES];         /* made on first use, never freed */
static uint32_t primary_retained[TSR_MACHINE_DEVICES];
static unsigned primary_flags[TSR_MACHINE_DEVICES];

static void settings_init(struct tsr_context_settings *settings, unsigned api_version)
{
    static const size_t limits[TSR_LIMITS] = {
        [CU_LIMIT_STACK_SIZE] = 1024,
        [CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20,
        [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
        [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
        [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
        [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
    };
    pthread_mutex_init(&settings->lock, NULL);
    for (int i = 0; i < TSR_LIMITS; i++)
        settings->limits[i] = limits[i];
    settings->cache = CU_FUNC_CACHE_PREFER_NONE;
    settings->shared = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    settings->api_version = api_version;
}

static void context_free(void *object)
{
    tsr_context_unref(object);
}

static CUresult create(uint32_t device, unsigned flags, uint32_t sm_count, unsigned api_version, struct tsr_context *root,
                       struct tsr_context **out)
{
    struct tsr_context *context = calloc(1, sizeof *context);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->references = 1;
    context->device = device;
    context->sm_count = sm_count;
    context->root = root ? root : context;
    if (root)
        tsr_context_ref(root);
    context->flags = flags;
    context->alive = 1;
    context->id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    pthread_mutex_init(&context->lock, NULL);
    settings_init(&context->settings, api_version);
    context->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_CONTEXT, context, context_free);
    if (!context->handle) {
        tsr_context_unref(context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = context;
    return CUDA_SUCCESS;
}

CUresult tsr_context_create(uint32_t device, unsigned flags, unsigned api_version, struct tsr_context **out)
{
    return create(device, flags, tsr_machine_instance()->devices[device].sm_count, api_version, NULL, out);
}

CUresult tsr_context_create_green(struct tsr_context *root, uint32_t sm_count, struct tsr_context **out)
{
    return create(root->device, 0, sm_count, root->settings.api_version, root, out);
}

struct tsr_context *tsr_context_root(struct tsr_context *context)
{
    return context->root;
}

/* In the order of enum tsr_context_slot. A destructor may still use slots that come later. */
static void run_destructors(struct tsr_context *context)
{
    for (int i = 0; i < TSR_SLOT_COUNT; i++) {
        pthread_mutex_lock(&context->lock);
        struct slot slot = context->slots[i];
        pthread_mutex_unlock(&context->lock);
        if (slot.value)
            slot.destroy(context, slot.value);
        pthread_mutex_lock(&context->lock);
        context->slots[i] = (struct slot){0};
        pthread_mutex_unlock(&context->lock);
    }
}

CUresult tsr_context_destroy(struct tsr_context *context)
{
    if (!__atomic_exchange_n(&context->alive, 0, __ATOMIC_ACQ_REL))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    run_destructors(context);
    if (!context->primary)
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_CONTEXT, context->handle);
    return CUDA_SUCCESS;
}

void tsr_context_ref(struct tsr_context *context)
{
    __atomic_add_fetch(&context->references, 1, __ATOMIC_RELAXED);
}

void tsr_context_unref(struct tsr_context *context)
{
    if (__atomic_sub_fetch(&context->references, 1, __ATOMIC_ACQ_REL))
        return;
    if (context->root != context)
        tsr_context_unref(context->root);
    pthread_mutex_destroy(&context->settings.lock);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

bool tsr_context_destroyed(const struct tsr_context *context)
{
    return !__atomic_load_n(&context->alive, __ATOMIC_ACQUIRE);
}

CUresult tsr_context_find(CUcontext handle, struct tsr_context **out)
{
    CUresult ready = tsr_driver_ready();
    if (ready != CUDA_SUCCESS)
        return ready;
    struct tsr_context *context = handle ? tsr_handle_find(tsr_handle_table(), TSR_KIND_CONTEXT, handle) : NULL;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (tsr_context_destroyed(context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = context;
    return CUDA_SUCCESS;
}

CUresult tsr_context_current_any(struct tsr_context **out)
{
    CUresult ready = tsr_driver_ready();
    if (ready != CUDA_SUCCESS)
        return ready;
    struct tsr_context *context = tsr_current_top();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (tsr_context_destroyed(context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = context;
    return CUDA_SUCCESS;
}

CUresult tsr_context_current(struct tsr_context **out)
{
    struct tsr_context *context;
    CUresult result = tsr_context_current_any(&context);
    if (result == CUDA_SUCCESS)
        result = tsr_context_sticky(context);
    if (result == CUDA_SUCCESS)
        *out = context;
    return result;
}

CUresult tsr_context_from_handle(CUcontext handle, struct tsr_context **out)
{
    if (!handle)
        return tsr_context_current(out);
    struct tsr_context *context;
    CUresult result = tsr_context_find(handle, &context);
    if (result == CUDA_SUCCESS)
        result = tsr_context_sticky(context);
    if (result == CUDA_SUCCESS)
        *out = context;
    return result;
}

CUcontext tsr_context_handle(struct tsr_context *context)
{
    return context->handle;
}

uint32_t tsr_emulated_context_device(const struct tsr_context *context)
{
    return context->device;
}

uint32_t tsr_context_sm_count(const struct tsr_context *context)
{
    return context->sm_count;
}

const struct tsr_device_desc *tsr_context_desc(const struct tsr_context *context)
{
    return &tsr_machine_instance()->devices[context->device];
}

uint64_t tsr_context_id(const struct tsr_context *context)
{
    return __atomic_load_n(&context->id, __ATOMIC_RELAXED);
}

unsigned tsr_context_flags(const struct tsr_context *context)
{
    return __atomic_load_n(&context->flags, __ATOMIC_RELAXED);
}

void tsr_context_flags_set(struct tsr_context *context, unsigned flags)
{
    __atomic_store_n(&context->flags, flags, __ATOMIC_RELAXED);
}

bool tsr_context_is_primary(const struct tsr_context *context)
{
    return context->primary;
}

struct tsr_context_settings *tsr_context_settings(struct tsr_context *context)
{
    return &context->settings;
}

void tsr_context_fail(struct tsr_context *context, CUresult error)
{
    CUresult none = CUDA_SUCCESS;
    __atomic_compare_exchange_n(&context->root->sticky, &none, error, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

CUresult tsr_context_sticky(const struct tsr_context *context)
{
    return __atomic_load_n(&context->root->sticky, __ATOMIC_ACQUIRE);
}

void *tsr_context_slot(struct tsr_context *context, enum tsr_context_slot slot)
{
    return __atomic_load_n(&context->slots[slot].value, __ATOMIC_ACQUIRE);
}

void *tsr_context_slot_set(struct tsr_context *context, enum tsr_context_slot slot, void *value,
                           void (*destroy)(struct tsr_context *, void *))
{
    pthread_mutex_lock(&context->lock);
    struct slot *entry = &context->slots[slot];
    if (!entry->value) {
        entry->destroy = destroy;
        __atomic_store_n(&entry->value, value, __ATOMIC_RELEASE);
    }
    value = entry->value;
    pthread_mutex_unlock(&context->lock);
    return value;
}

/* primary_lock is held: the context, alive. */
static CUresult primary_wake_locked(uint32_t device)
{
    struct tsr_context *context = primary[device];
    if (!context) {
        CUresult result = tsr_context_create(device, primary_flags[device], 13000, &context);
        if (result != CUDA_SUCCESS)
            return result;
        context->primary = true;
        primary[device] = context;
    } else if (tsr_context_destroyed(context)) {
        __atomic_store_n(&context->sticky, CUDA_SUCCESS, __ATOMIC_RELEASE);
        tsr_context_flags_set(context, primary_flags[device]);
        __atomic_store_n(&context->id, __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
        settings_init(&context->settings, context->settings.api_version);
        __atomic_store_n(&context->alive, 1, __ATOMIC_RELEASE);
    }
    return CUDA_SUCCESS;
}

CUresult tsr_primary_retain(uint32_t device, struct tsr_context **out)
{
    pthread_mutex_lock(&primary_lock);
    CUresult result = primary_wake_locked(device);
    if (result == CUDA_SUCCESS) {
        primary_retained[device]++;
        *out = primary[device];
    }
    pthread_mutex_unlock(&primary_lock);
    return result;
}

CUresult tsr_primary_release(uint32_t device)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&primary_lock);
    if (!primary_retained[device])
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (--primary_retained[device] == 0)
        tsr_context_destroy(primary[device]);
    pthread_mutex_unlock(&primary_lock);
    return result;
}

CUresult tsr_primary_reset(uint32_t device)
{
    pthread_mutex_lock(&primary_lock);
    if (primary[device] && !tsr_context_destroyed(primary[device]))
        tsr_context_destroy(primary[device]);
    pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}

void tsr_primary_state(uint32_t device, unsigned *flags, bool *active)
{
    pthread_mutex_lock(&primary_lock);
    *flags = primary_flags[device];
    *active = primary[device] && !tsr_context_destroyed(primary[device]);
    pthread_mutex_unlock(&primary_lock);
}

void tsr_primary_flags_set(uint32_t device, unsigned flags)
{
    pthread_mutex_lock(&primary_lock);
    primary_flags[device] = flags;
    if (primary[device])
        tsr_context_flags_set(primary[device], flags);
    pthread_mutex_unlock(&primary_lock);
}
