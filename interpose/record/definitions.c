/* See definitions.h. */
#include "record/definitions.h"

#include "driver/engaged.h"

#include <pthread.h>
#include <string.h>

#include <tessera/records.h>

#include "base/fork.h"
#include "base/hash.h"
#include "base/map.h"
#include "image/extent.h"
#include "record/code.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "record/writer.h"

#define CONTEXTS 4096u

uint32_t tsr_handles_epoch_now TSR_HOT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards giving numbers */
static struct tsr_map contexts;                          /* CUcontext to its number */
static uint8_t devices[CONTEXTS];                        /* by context; written before the number is given out */
static struct tsr_map module_numbers, function_numbers;  /* by what is defined: loaded again, it has the number that it had */
static uint32_t last_context, last_module, last_function;

static uint64_t key_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    contexts = module_numbers = function_numbers = (struct tsr_map){0};
    last_context = last_module = last_function = 0;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

static void define_device(CUdevice device)
{
    char name[256] = "";
    size_t bytes = 0;
    tsr_real.cuDeviceGetName(name, sizeof name, device);
    tsr_real.cuDeviceTotalMem_v2(&bytes, device);
    int major = 0, minor = 0;
    tsr_real.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    tsr_real.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    struct tsr_entry entry = {.kind = TSR_ENTRY_DEVICE,
                              .number = tsr_gpu_of(device),
                              .parent = (uint32_t)(10 * major + minor),
                              .handle = (uint64_t)device,
                              .size = bytes};
    tsr_writer_define(&entry, name);
}

void tsr_definitions_start(void)
{
    tsr_fork_listen(&forks);
    int count = 0, driver_version = 0;
    tsr_real.cuDriverGetVersion(&driver_version);
    tsr_writer_journal()->driver_version = (uint32_t)driver_version;
    tsr_real.cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        if (tsr_real.cuDeviceGet(&device, i) == CUDA_SUCCESS)
            define_device(device);
    }
}

void tsr_handles_changed(void)
{
    __atomic_fetch_add(&tsr_handles_epoch_now, 1, __ATOMIC_RELAXED);
}

/* The context need not be current, and what is current stays so. */
static uint8_t device_of(CUcontext context)
{
    CUcontext current = NULL, popped;
    CUdevice device = -1;
    tsr_real.cuCtxGetCurrent(&current);
    if (current == context) {
        tsr_real.cuCtxGetDevice(&device);
    } else if (tsr_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
        tsr_real.cuCtxGetDevice(&device);
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
    uint32_t gpu = tsr_gpu_of(device);
    return gpu < TSR_DEVICE_UNKNOWN ? (uint8_t)gpu : TSR_DEVICE_UNKNOWN;
}

static uint16_t define_context_locked(CUcontext context)
{
    uintptr_t known = (uintptr_t)tsr_map_find(&contexts, key_of(context));
    if (known || last_context == CONTEXTS - 1)
        return (uint16_t)known;
    uint8_t device = device_of(context);
    if (device == TSR_DEVICE_UNKNOWN)
        return 0;
    uint16_t number = (uint16_t)++last_context;
    devices[number] = device;
    struct tsr_entry entry = {
        .kind = TSR_ENTRY_CONTEXT, .number = number, .parent = devices[number], .handle = key_of(context)};
    tsr_writer_define(&entry, "");
    tsr_map_set(&contexts, key_of(context), (void *)(uintptr_t)number);
    return number;
}

uint16_t tsr_context_number(CUcontext context)
{
    uintptr_t known = (uintptr_t)tsr_map_find(&contexts, key_of(context));
    if (known)
        return (uint16_t)known;
    pthread_mutex_lock(&lock);
    uint16_t number = define_context_locked(context);
    pthread_mutex_unlock(&lock);
    return number;
}

uint8_t tsr_context_device(uint16_t number)
{
    return number && number < CONTEXTS ? devices[number] : TSR_DEVICE_UNKNOWN;
}

static bool context_goes(uint64_t handle, const void *value, const void *device)
{
    (void)handle;
    return devices[(uintptr_t)value] == tsr_gpu_of(*(const CUdevice *)device);
}

static void forget_context(uint64_t handle, uintptr_t number, void (*forgotten)(uint16_t number))
{
    tsr_handles_changed();
    if (number)
        forgotten((uint16_t)number);
    tsr_modules_forget_of((CUcontext)(uintptr_t)handle);
}

void tsr_context_forget(CUcontext context, void (*forgotten)(uint16_t number))
{
    forget_context(key_of(context), (uintptr_t)tsr_map_remove(&contexts, key_of(context)), forgotten);
}

void tsr_contexts_forget_of(CUdevice device, void (*forgotten)(uint16_t number))
{
    struct tsr_map_entries gone = tsr_map_remove_if(&contexts, context_goes, &device);
    for (size_t i = 0; i < gone.count; i++)
        forget_context(gone.data[i].key, (uintptr_t)gone.data[i].value, forgotten);
    tsr_vec_fini(&gone);
}

/* 0: not defined yet, or not known well enough to tell. */
static uint32_t number_of(const struct tsr_map *numbers, uint64_t identity)
{
    return identity ? (uint32_t)(uintptr_t)tsr_map_find(numbers, identity) : 0;
}

static void keep_number(struct tsr_map *numbers, uint64_t identity, uint32_t number)
{
    if (identity)
        tsr_map_set(numbers, identity, (void *)(uintptr_t)number);
}

void tsr_module_define(struct tsr_module_record *module, const void *image, const char *path, const void *caller)
{
    const void *data = image ? tsr_image_unwrap(image) : NULL;
    struct tsr_code code;
    tsr_code_find(&code, data, data ? tsr_image_bytes(data) : 0, path);
    tsr_code_name_loader(&code, caller);
    struct tsr_entry entry = {
        .kind = TSR_ENTRY_MODULE, .handle = key_of(module->handle), .size = code.bytes, .hash = code.hash};
    __atomic_store_n(&module->hash, code.hash, __ATOMIC_RELAXED);
    uint64_t identity = entry.hash ? entry.hash ^ entry.size << 1 ^ module->is_library : 0;
    pthread_mutex_lock(&lock);
    module->number = number_of(&module_numbers, identity);
    if (!module->number) {
        entry.number = module->number = ++last_module;
        tsr_writer_define(&entry, code.path);
        keep_number(&module_numbers, identity, module->number);
    }
    pthread_mutex_unlock(&lock);
    if (entry.number)
        tsr_code_hand_over(&code, entry.number, 0);
    tsr_code_done(&code);
}

/* What it was looked up by, or what the driver says. */
static const char *name_of(const struct tsr_function_record *function)
{
    const char *name = function->name;
    if (!name && function->is_kernel)
        tsr_real.cuKernelGetName(&name, (CUkernel)function->handle);
    else if (!name)
        tsr_real.cuFuncGetName(&name, (CUfunction)function->handle);
    return name ? name : "";
}

static void number_locked(struct tsr_function_record *function, const void *handle)
{
    const char *name = name_of(function);
    tsr_function_read_parameters(function);
    struct tsr_entry entry = {.kind = TSR_ENTRY_FUNCTION,
                              .number = last_function + 1,
                              .parent = function->module ? function->module->number : 0,
                              .handle = key_of(handle),
                              .size = function->parameters.bytes};
    uint64_t what[3] = {tsr_hash(name, strlen(name)), entry.parent, entry.size};
    uint64_t identity = entry.parent ? tsr_hash(what, sizeof what) : 0;
    uint32_t number = number_of(&function_numbers, identity);
    if (!number) {
        tsr_writer_define(&entry, name);
        number = ++last_function;
        keep_number(&function_numbers, identity, number);
    }
    __atomic_store_n(&function->number, number, __ATOMIC_RELEASE);
}

struct tsr_function_record *tsr_function_define(const void *handle)
{
    if (!handle)
        return NULL;
    if (!tsr_function_find(handle))
        tsr_function_note(handle, NULL, NULL, false);
    pthread_mutex_lock(&lock);
    struct tsr_function_record *function = tsr_function_find(handle);
    if (function && !function->number)
        number_locked(function, handle);
    pthread_mutex_unlock(&lock);
    return function;
}
