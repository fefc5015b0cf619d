/* See loaded.h: code boxes, modules and their functions and variables. */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"

#include "../context/handles.h"
#include "../memory/alloc.h"
#include "link_text.h"
#include "loaded.h"
#include "trace.h"

struct tsr_module {
    uint32_t references; /* atomic: handle or library, launches, the caller who looked it up */
    uint32_t unloaded;   /* atomic */
    CUmodule handle;
    struct tsr_context *context; /* a reference */
    struct tsr_library *library; /* that made it; not counted */
    struct tsr_code_box *box;
    uint64_t *addresses;              /* per variable; 0 before it is placed */
    struct tsr_loaded_entry *entries; /* of the functions that are entries, in order */
    uint32_t entry_count;
};

/* What a context has loaded, to be unloaded with it. */
struct module_list {
    pthread_mutex_t lock;
    TSR_VEC(struct tsr_module *) modules; /* lock */
};

static CUresult decode(const char *text, size_t length, uint32_t device, unsigned max_registers, struct tsr_ptx_code **out,
                       struct tsr_ptx_error *error)
{
    const struct tsr_device_desc *desc = &tsr_machine_instance()->devices[device];
    if (!max_registers)
        return tsr_code_create(text, length, desc, out, error);
    char *bounded = tsr_link_bound_registers(text, max_registers);
    if (!bounded)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = tsr_code_create(bounded, strlen(bounded), desc, out, error);
    free(bounded);
    return result;
}

CUresult tsr_code_box_create(const char *text, size_t length, uint32_t device, struct tsr_jit_log *log,
                             struct tsr_code_box **out)
{
    struct tsr_ptx_error error = {0};
    struct tsr_code_box *box = calloc(1, sizeof *box);
    if (!box)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = decode(text, length, device, log->max_registers, &box->code, &error);
    if (result != CUDA_SUCCESS) {
        tsr_error("PTX line %u, column %u: %s", error.line, error.column, error.message);
        tsr_jit_say(&log->error, "ptxas application ptx input, line %u; error   : %s\n", error.line, error.message);
        tsr_jit_say(&log->error, "ptxas fatal   : Ptx assembly aborted due to errors\n");
        free(box);
        return result;
    }
    box->references = 1;
    box->code->text_id = tsr_trace_text(text, length);
    *out = box;
    return CUDA_SUCCESS;
}

void tsr_code_box_unref(struct tsr_code_box *box)
{
    if (__atomic_sub_fetch(&box->references, 1, __ATOMIC_ACQ_REL))
        return;
    tsr_code_destroy(box->code);
    free(box);
}

void tsr_module_ref(struct tsr_module *module)
{
    __atomic_add_fetch(&module->references, 1, __ATOMIC_RELAXED);
}

void tsr_module_unref(struct tsr_module *module)
{
    if (__atomic_sub_fetch(&module->references, 1, __ATOMIC_ACQ_REL))
        return;
    tsr_code_box_unref(module->box);
    tsr_context_unref(module->context);
    free(module->addresses);
    free(module->entries);
    free(module);
}

static enum tsr_range_kind variable_kind(const struct tsr_variable *variable)
{
    return variable->managed ? TSR_RANGE_MANAGED : TSR_RANGE_MODULE;
}

static void mark_as_variable(struct tsr_emulated_allocation *allocation, void *module)
{
    allocation->detail = module;
}

static CUresult place_variables(struct tsr_module *module)
{
    const struct tsr_ptx_code *code = module->box->code;
    for (uint32_t i = 0; i < code->variable_count; i++) {
        const struct tsr_variable *variable = &code->variables[i];
        uint64_t bytes = variable->bytes ? variable->bytes : 1;
        CUresult result = CUDA_SUCCESS;
        if (variable->is_extern)
            continue;
        if (variable->managed)
            result = tsr_memory_alloc_managed(module->context, bytes, CU_MEM_ATTACH_GLOBAL, &module->addresses[i]);
        else
            result = tsr_memory_alloc(module->context, bytes, TSR_RANGE_MODULE, &module->addresses[i]);
        if (result != CUDA_SUCCESS)
            return result;
        tsr_allocation_change(module->addresses[i], mark_as_variable, module);
    }
    return CUDA_SUCCESS;
}

static void fill_variable(const struct tsr_module *module, uint32_t index)
{
    const struct tsr_variable *variable = &module->box->code->variables[index];
    uint8_t *bytes = (uint8_t *)(uintptr_t)module->addresses[index];
    if (!bytes)
        return;
    memset(bytes, 0, variable->bytes);
    if (variable->init)
        memcpy(bytes, variable->init, variable->bytes);
    for (uint32_t i = 0; i < variable->reloc_count; i++) {
        const struct tsr_reloc *reloc = &variable->relocs[i];
        uint64_t target =
            reloc->function ? tsr_code_address(module->box->code->window, reloc->index) : module->addresses[reloc->index];
        target += (uint64_t)reloc->addend;
        memcpy(bytes + reloc->offset, &target, sizeof target);
    }
}

static CUresult link_code(struct tsr_module *module, struct tsr_jit_log *log)
{
    struct tsr_ptx_error error = {0};
    struct tsr_ptx_code *code = module->box->code;
    module->addresses = calloc(code->variable_count + 1, sizeof *module->addresses);
    if (!module->addresses)
        return CUDA_ERROR_OUT_OF_MEMORY;
    TSR_TRY(place_variables(module));
    CUresult result = tsr_code_link(code, module->addresses, &error);
    if (result != CUDA_SUCCESS) {
        tsr_error("PTX line %u: %s", error.line, error.message);
        tsr_jit_say(&log->error, "ptxas application ptx input, line %u; error   : %s\n", error.line, error.message);
        return result;
    }
    for (uint32_t i = 0; i < code->variable_count; i++)
        fill_variable(module, i);
    return CUDA_SUCCESS;
}

void tsr_function_settings_init(struct tsr_function_settings *settings, const struct tsr_function *function)
{
    *settings = (struct tsr_function_settings){.dynamic_shared_bytes = -1, .carveout = -1};
    for (int i = 0; i < 3; i++)
        settings->cluster[i] = (int)function->cluster[i];
}

/* Usually the one of the same number: the texts of all architectures list the same kernels. */
static struct tsr_kernel *kernel_of(struct tsr_library *library, uint32_t number, const char *name)
{
    struct tsr_kernel *kernel = tsr_library_kernel_at(library, number);
    return kernel && strcmp(kernel->name, name) == 0 ? kernel : tsr_library_kernel(library, name);
}

static CUresult make_entries(struct tsr_module *module)
{
    const struct tsr_ptx_code *code = module->box->code;
    for (uint32_t i = 0; i < code->function_count; i++)
        module->entry_count += code->functions[i].entry;
    module->entries = calloc(module->entry_count + 1, sizeof *module->entries);
    if (!module->entries)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct tsr_loaded_entry *entry = module->entries;
    for (uint32_t i = 0; i < code->function_count; i++) {
        if (!code->functions[i].entry)
            continue;
        entry->module = module;
        entry->function = &code->functions[i];
        if (module->library)
            entry->kernel = kernel_of(module->library, (uint32_t)(entry - module->entries), entry->function->name);
        tsr_function_settings_init(&entry->settings, entry->function);
        entry->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_FUNCTION, entry, NULL);
        if (!entry->handle)
            return CUDA_ERROR_OUT_OF_MEMORY;
        entry++;
    }
    return CUDA_SUCCESS;
}

static void list_end(struct tsr_context *context, void *value)
{
    (void)context;
    struct module_list *list = value;
    while (list->modules.count)
        tsr_module_unload(list->modules.data[list->modules.count - 1]);
    tsr_vec_fini(&list->modules);
    pthread_mutex_destroy(&list->lock);
    free(list);
}

static struct module_list *list_of(struct tsr_context *context)
{
    struct module_list *list = tsr_context_slot(context, TSR_SLOT_MODULES);
    if (list)
        return list;
    struct module_list *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    pthread_mutex_init(&made->lock, NULL);
    list = tsr_context_slot_set(context, TSR_SLOT_MODULES, made, list_end);
    if (list != made)
        free(made);
    return list;
}

static bool list_add(struct tsr_module *module)
{
    struct module_list *list = list_of(module->context);
    if (!list)
        return false;
    pthread_mutex_lock(&list->lock);
    bool added = tsr_vec_push(&list->modules, module);
    pthread_mutex_unlock(&list->lock);
    return added;
}

static void list_remove(struct tsr_module *module)
{
    struct module_list *list = tsr_context_slot(module->context, TSR_SLOT_MODULES);
    if (!list)
        return;
    pthread_mutex_lock(&list->lock);
    for (size_t i = 0; i < list->modules.count; i++)
        if (list->modules.data[i] == module) {
            tsr_vec_remove_swap(&list->modules, i);
            break;
        }
    pthread_mutex_unlock(&list->lock);
}

CUresult tsr_module_create(struct tsr_context *context, struct tsr_code_box *box, struct tsr_library *library,
                           struct tsr_jit_log *log, struct tsr_module **out)
{
    struct tsr_module *module = calloc(1, sizeof *module);
    if (!module) {
        tsr_code_box_unref(box);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context = tsr_context_root(context);
    module->references = 1;
    module->context = context;
    module->library = library;
    module->box = box;
    tsr_context_ref(context);
    CUresult result = link_code(module, log);
    if (result == CUDA_SUCCESS)
        result = make_entries(module);
    if (result == CUDA_SUCCESS) {
        module->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_MODULE, module, NULL);
        if (!module->handle || !list_add(module))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        tsr_module_unload(module);
        return result;
    }
    *out = module;
    return CUDA_SUCCESS;
}

CUresult tsr_module_load(struct tsr_context *context, const void *image, size_t size, struct tsr_jit_log *log,
                         struct tsr_module **out)
{
    const struct tsr_device_desc *desc = tsr_context_desc(context);
    struct tsr_image resolved;
    const char *reason = "";
    CUresult result = tsr_image_resolve(image, size, desc->compute_major * 10 + desc->compute_minor, &resolved, &reason);
    if (result != CUDA_SUCCESS) {
        tsr_error("a module cannot be loaded on %s: %s", desc->name, reason);
        tsr_jit_say(&log->error, "%s\n", reason);
        return result;
    }
    struct tsr_code_box *box;
    result = tsr_code_box_create(resolved.text, resolved.length, tsr_emulated_context_device(context), log, &box);
    tsr_image_fini(&resolved);
    return result == CUDA_SUCCESS ? tsr_module_create(context, box, NULL, log, out) : result;
}

void tsr_module_unload(struct tsr_module *module)
{
    if (__atomic_exchange_n(&module->unloaded, 1, __ATOMIC_ACQ_REL))
        return;
    list_remove(module);
    if (module->handle)
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_MODULE, module->handle);
    for (uint32_t i = 0; module->entries && i < module->entry_count; i++)
        if (module->entries[i].handle)
            tsr_handle_remove(tsr_handle_table(), TSR_KIND_FUNCTION, module->entries[i].handle);
    const struct tsr_ptx_code *code = module->box->code;
    for (uint32_t i = 0; module->addresses && i < code->variable_count; i++)
        if (module->addresses[i])
            tsr_memory_release(module->addresses[i], variable_kind(&code->variables[i]));
    if (module->library)
        tsr_library_forget(module->library, module);
    tsr_module_unref(module);
}

CUmodule tsr_module_handle(struct tsr_module *module)
{
    return module->handle;
}

struct tsr_context *tsr_module_context(struct tsr_module *module)
{
    return module->context;
}

const struct tsr_ptx_code *tsr_module_code(const struct tsr_module *module)
{
    return module->box->code;
}

struct tsr_library *tsr_module_library(struct tsr_module *module)
{
    return module->library;
}

struct tsr_loaded_entry *tsr_module_entry(struct tsr_module *module, const char *name)
{
    const struct tsr_function *function = tsr_code_entry(module->box->code, name);
    for (uint32_t i = 0; function && i < module->entry_count; i++)
        if (module->entries[i].function == function)
            return &module->entries[i];
    return NULL;
}

struct tsr_loaded_entry *tsr_module_entry_at(struct tsr_module *module, uint32_t index)
{
    return index < module->entry_count ? &module->entries[index] : NULL;
}

bool tsr_module_variable(struct tsr_module *module, const char *name, struct tsr_variable_place *out)
{
    uint32_t index;
    const struct tsr_variable *variable = tsr_code_variable(module->box->code, name, &index);
    if (!variable || !module->addresses[index])
        return false;
    *out = (struct tsr_variable_place){module->addresses[index], variable};
    return true;
}

CUresult tsr_entry_resolve(struct tsr_context *context, const void *handle, struct tsr_loaded_entry **out)
{
    struct tsr_loaded_entry *entry = tsr_handle_find(tsr_handle_table(), TSR_KIND_FUNCTION, handle);
    if (entry) {
        TSR_REQUIRE(entry->module->context == tsr_context_root(context), CUDA_ERROR_INVALID_HANDLE);
        *out = entry;
        return CUDA_SUCCESS;
    }
    struct tsr_kernel *kernel = tsr_handle_find(tsr_handle_table(), TSR_KIND_KERNEL, handle);
    TSR_REQUIRE(kernel, CUDA_ERROR_INVALID_HANDLE);
    struct tsr_module *module;
    TSR_TRY(tsr_library_module(kernel->library, context, &module));
    entry = tsr_module_entry_at(module, kernel->index);
    if (!entry || entry->kernel != kernel)
        entry = tsr_module_entry(module, kernel->name);
    TSR_REQUIRE(entry, CUDA_ERROR_NOT_FOUND);
    *out = entry;
    return CUDA_SUCCESS;
}

struct tsr_function_settings *tsr_entry_settings(struct tsr_loaded_entry *entry)
{
    return entry->kernel ? &entry->kernel->settings[tsr_emulated_context_device(entry->module->context)] : &entry->settings;
}
