/*
 * See loaded.h: libraries and kernels. A library is not bound to a context. Loading resolves its PTX for every architecture in the machine
 * and decodes it once, for the device of the current context or the first one, so that errors show at once and kernels can be listed; that
 * decoded code serves the first context of the device.
 */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"

#include "../context/handles.h"
#include "loaded.h"

struct text {
    uint32_t arch;
    CUresult result; /* why there is none */
    struct tsr_image image;
};

struct tsr_library {
    CUlibrary handle;
    struct text texts[TSR_MACHINE_DEVICES]; /* one per distinct architecture of the machine */
    uint32_t text_count;
    struct tsr_code_box *catalog; /* names and layouts */
    uint32_t catalog_device;
    struct tsr_kernel *kernels;
    uint32_t kernel_count;
    pthread_mutex_t lock;
    TSR_VEC(struct tsr_module *) modules; /* lock; one per context that used it */
};

static uint32_t arch_of(uint32_t device)
{
    const struct tsr_device_desc *desc = &tsr_machine_instance()->devices[device];
    return desc->compute_major * 10 + desc->compute_minor;
}

static const struct text *text_for(const struct tsr_library *library, uint32_t device)
{
    uint32_t i = 0;
    while (library->texts[i].arch != arch_of(device))
        i++;
    return &library->texts[i];
}

/* Once: a program that goes on without such code has more of the kind. */
static void warn_of_machine_code(const char *reason)
{
    static bool warned;
    if (!__atomic_exchange_n(&warned, true, __ATOMIC_RELAXED))
        tsr_warn("a library cannot be loaded: %s", reason);
}

/* Fails only when the image is of no use to any device. */
static CUresult resolve_texts(struct tsr_library *library, const void *image, size_t size, struct tsr_jit_log *log)
{
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    const char *reason = "";
    for (uint32_t device = 0; device < tsr_machine_instance()->device_count; device++) {
        uint32_t arch = arch_of(device), i = 0;
        while (i < library->text_count && library->texts[i].arch != arch)
            i++;
        if (i < library->text_count)
            continue;
        struct text *text = &library->texts[library->text_count++];
        text->arch = arch;
        text->result = tsr_image_resolve(image, size, arch, &text->image, &reason);
        if (text->result == CUDA_SUCCESS) {
            result = CUDA_SUCCESS;
            continue;
        }
        tsr_info("a library has nothing for sm_%u: %s", arch, reason);
        tsr_jit_say(&log->error, "sm_%u: %s\n", arch, reason);
        if (result != CUDA_SUCCESS)
            result = text->result;
    }
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        warn_of_machine_code(reason);
    return result;
}

/* The device to decode for first: the current context's if it has a text, else the first that has. */
static uint32_t catalog_device(const struct tsr_library *library)
{
    struct tsr_context *context;
    if (tsr_context_current_any(&context) == CUDA_SUCCESS &&
        text_for(library, tsr_emulated_context_device(context))->result == CUDA_SUCCESS)
        return tsr_emulated_context_device(context);
    uint32_t device = 0;
    while (text_for(library, device)->result != CUDA_SUCCESS)
        device++;
    return device;
}

static CUresult make_kernels(struct tsr_library *library)
{
    const struct tsr_ptx_code *code = library->catalog->code;
    for (uint32_t i = 0; i < code->function_count; i++)
        library->kernel_count += code->functions[i].entry;
    library->kernels = calloc(library->kernel_count + 1, sizeof *library->kernels);
    if (!library->kernels)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint32_t made = 0;
    for (uint32_t i = 0; i < code->function_count; i++) {
        if (!code->functions[i].entry)
            continue;
        struct tsr_kernel *kernel = &library->kernels[made];
        kernel->library = library;
        kernel->name = code->functions[i].name;
        kernel->index = made++;
        for (int device = 0; device < TSR_MACHINE_DEVICES; device++)
            tsr_function_settings_init(&kernel->settings[device], &code->functions[i]);
        kernel->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_KERNEL, kernel, NULL);
        if (!kernel->handle)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

/* Recursive: a module that cannot be made is forgotten while the library is busy loading it. */
static void lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

CUresult tsr_library_create(const void *image, size_t size, struct tsr_jit_log *log, struct tsr_library **out)
{
    struct tsr_library *library = calloc(1, sizeof *library);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lock_init(&library->lock);
    CUresult result = resolve_texts(library, image, size, log);
    if (result == CUDA_SUCCESS) {
        library->catalog_device = catalog_device(library);
        const struct tsr_image *text = &text_for(library, library->catalog_device)->image;
        result = tsr_code_box_create(text->text, text->length, library->catalog_device, log, &library->catalog);
    }
    if (result == CUDA_SUCCESS)
        result = make_kernels(library);
    if (result == CUDA_SUCCESS) {
        library->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_LIBRARY, library, NULL);
        if (!library->handle)
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        tsr_library_destroy(library);
        return result;
    }
    *out = library;
    return CUDA_SUCCESS;
}

CUresult tsr_library_destroy(struct tsr_library *library)
{
    if (library->handle && !tsr_handle_remove(tsr_handle_table(), TSR_KIND_LIBRARY, library->handle))
        return CUDA_ERROR_INVALID_HANDLE;
    while (library->modules.count)
        tsr_module_unload(library->modules.data[library->modules.count - 1]);
    tsr_vec_fini(&library->modules);
    for (uint32_t i = 0; library->kernels && i < library->kernel_count; i++)
        if (library->kernels[i].handle)
            tsr_handle_remove(tsr_handle_table(), TSR_KIND_KERNEL, library->kernels[i].handle);
    free(library->kernels);
    if (library->catalog)
        tsr_code_box_unref(library->catalog);
    for (uint32_t i = 0; i < library->text_count; i++)
        if (library->texts[i].result == CUDA_SUCCESS)
            tsr_image_fini(&library->texts[i].image);
    pthread_mutex_destroy(&library->lock);
    free(library);
    return CUDA_SUCCESS;
}

static struct tsr_module *find_locked(const struct tsr_library *library, const struct tsr_context *context)
{
    for (size_t i = 0; i < library->modules.count; i++)
        if (tsr_module_context(library->modules.data[i]) == context)
            return library->modules.data[i];
    return NULL;
}

static CUresult box_for_locked(struct tsr_library *library, uint32_t device, struct tsr_code_box **out)
{
    if (device == library->catalog_device && !library->catalog->linked) {
        library->catalog->linked = true;
        __atomic_add_fetch(&library->catalog->references, 1, __ATOMIC_RELAXED);
        *out = library->catalog;
        return CUDA_SUCCESS;
    }
    struct tsr_jit_log silent = {0};
    const struct text *text = text_for(library, device);
    TSR_TRY(text->result);
    return tsr_code_box_create(text->image.text, text->image.length, device, &silent, out);
}

static CUresult load_locked(struct tsr_library *library, struct tsr_context *context, struct tsr_module **out)
{
    struct tsr_jit_log silent = {0};
    struct tsr_code_box *box;
    if (!tsr_vec_reserve(&library->modules, library->modules.count + 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    TSR_TRY(box_for_locked(library, tsr_emulated_context_device(context), &box));
    TSR_TRY(tsr_module_create(context, box, library, &silent, out));
    library->modules.data[library->modules.count++] = *out;
    return CUDA_SUCCESS;
}

CUresult tsr_library_module(struct tsr_library *library, struct tsr_context *context, struct tsr_module **out)
{
    CUresult result = CUDA_SUCCESS;
    context = tsr_context_root(context);
    pthread_mutex_lock(&library->lock);
    *out = find_locked(library, context);
    if (!*out)
        result = load_locked(library, context, out);
    pthread_mutex_unlock(&library->lock);
    return result;
}

void tsr_library_forget(struct tsr_library *library, struct tsr_module *module)
{
    pthread_mutex_lock(&library->lock);
    for (size_t i = 0; i < library->modules.count; i++)
        if (library->modules.data[i] == module) {
            tsr_vec_remove_swap(&library->modules, i);
            break;
        }
    pthread_mutex_unlock(&library->lock);
}

CUlibrary tsr_library_handle(struct tsr_library *library)
{
    return library->handle;
}

uint32_t tsr_library_kernel_count(struct tsr_library *library)
{
    return library->kernel_count;
}

struct tsr_kernel *tsr_library_kernel_at(struct tsr_library *library, uint32_t index)
{
    return index < library->kernel_count ? &library->kernels[index] : NULL;
}

struct tsr_kernel *tsr_library_kernel(struct tsr_library *library, const char *name)
{
    for (uint32_t i = 0; i < library->kernel_count; i++)
        if (strcmp(library->kernels[i].name, name) == 0)
            return &library->kernels[i];
    return NULL;
}

const struct tsr_ptx_code *tsr_library_code(struct tsr_library *library)
{
    return library->catalog->code;
}

const struct tsr_function *tsr_kernel_function(struct tsr_kernel *kernel)
{
    return tsr_code_entry(kernel->library->catalog->code, kernel->name);
}

struct tsr_context *tsr_library_context_at(struct tsr_library *library, uint32_t index)
{
    pthread_mutex_lock(&library->lock);
    struct tsr_context *context = index < library->modules.count ? tsr_module_context(library->modules.data[index]) : NULL;
    pthread_mutex_unlock(&library->lock);
    return context;
}
