/* See registry.h. */
#include "object/registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/options.h"
#include "base/quarantine.h"
#include "driver/engaged.h"
#include "driver/real.h"
#include "object/module_image.h"

static uint64_t contexts_ended;                          /* atomic */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* counting functions' handles and reading their parameters */
static struct tsr_map modules;                           /* CUmodule or CUlibrary */
static struct tsr_map functions TSR_HOT;                 /* CUfunction or CUkernel */
static uint32_t last_id;                                 /* atomic */
static struct tsr_quarantine old_modules, old_functions;
static tsr_unload_listener *listeners[TSR_UNLOAD_LISTENERS]; /* constant once the first module has been loaded */

static uint64_t key_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    modules = functions = (struct tsr_map){0};
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

void tsr_registry_start(void)
{
    tsr_fork_listen(&forks);
}

/* While CUDA is being initialised, by one thread at a time. */
void tsr_registry_listen(tsr_unload_listener *listener)
{
    unsigned place = 0;
    while (place < TSR_UNLOAD_LISTENERS && listeners[place] && listeners[place] != listener)
        place++;
    if (place < TSR_UNLOAD_LISTENERS && !listeners[place])
        listeners[place] = listener;
}

static uint32_t next_id(void)
{
    return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
}

static CUcontext current_context(void)
{
    CUcontext context = NULL;
    tsr_real.cuCtxGetCurrent(&context);
    return context;
}

static void free_function(struct tsr_function_record *function)
{
    if (!function)
        return;
    tsr_parameters_fini(&function->parameters);
    for (struct tsr_symbols *at = function->symbols, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    free(function->name);
    free(function);
}

/* One handle less leads to the function; its record is freed with the last one. */
static void drop_handle(struct tsr_function_record *function)
{
    pthread_mutex_lock(&lock);
    bool last = --function->handles == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        free_function(tsr_quarantine_pass(&old_functions, function));
}

bool tsr_function_keep(struct tsr_function_record *function)
{
    pthread_mutex_lock(&lock);
    bool is_there = function->handles > 0;
    function->handles += is_there;
    pthread_mutex_unlock(&lock);
    return is_there;
}

void tsr_function_give(struct tsr_function_record *function)
{
    drop_handle(function);
}

static void forget_handle(const void *handle)
{
    struct tsr_function_record *function = tsr_map_remove(&functions, key_of(handle));
    if (function)
        drop_handle(function);
}

static void forget_functions(bool (*condition)(uint64_t handle, const void *function, const void *of), const void *of)
{
    struct tsr_map_entries gone = tsr_map_remove_if(&functions, condition, of);
    for (size_t i = 0; i < gone.count; i++)
        drop_handle(gone.data[i].value);
    tsr_vec_fini(&gone);
}

static bool function_is_in(uint64_t handle, const void *function, const void *module)
{
    (void)handle;
    return ((const struct tsr_function_record *)function)->module == module;
}

static bool function_is_of(uint64_t handle, const void *function, const void *context)
{
    (void)handle;
    return ((const struct tsr_function_record *)function)->context == context;
}

static bool module_is(uint64_t handle, const void *module, const void *as)
{
    (void)handle;
    return module == as;
}

static bool module_is_of(uint64_t handle, const void *module, const void *context)
{
    (void)handle;
    return ((const struct tsr_module_record *)module)->context == context;
}

/* No handle leads to it any more. */
static void retire(struct tsr_module_record *module)
{
    for (unsigned i = 0; i < TSR_UNLOAD_LISTENERS && listeners[i]; i++)
        listeners[i](module); /* before anything is freed: launches that an executor has not taken may need the functions */
    tsr_module_drop_image(module);
    forget_functions(function_is_in, module);
    free(tsr_quarantine_pass(&old_modules, module));
}

void tsr_module_forget(const void *handle)
{
    struct tsr_module_record *module = handle ? tsr_map_remove(&modules, key_of(handle)) : NULL;
    if (!module)
        return;
    struct tsr_map_entries aliases = tsr_map_remove_if(&modules, module_is, module);
    tsr_vec_fini(&aliases);
    retire(module);
}

uint64_t tsr_registry_epoch(void)
{
    return __atomic_load_n(&contexts_ended, __ATOMIC_ACQUIRE);
}

void tsr_modules_forget_of(CUcontext context)
{
    __atomic_add_fetch(&contexts_ended, 1, __ATOMIC_RELEASE);
    struct tsr_map_entries gone = tsr_map_remove_if(&modules, module_is_of, context);
    for (size_t i = 0; i < gone.count; i++) /* modules have no alias, only libraries do */
        retire(gone.data[i].value);
    tsr_vec_fini(&gone);
    forget_functions(function_is_of, context);
}

struct tsr_module_record *tsr_module_note(const void *handle, bool is_library)
{
    struct tsr_module_record *module = calloc(1, sizeof *module);
    if (!module)
        return NULL;
    const struct tsr_module_record *before = tsr_module_find(handle);
    if (before && before->handle == handle) /* and not an alias of another one */
        tsr_module_forget(handle);
    module->handle = handle;
    module->id = next_id();
    module->is_library = is_library;
    module->context = is_library ? NULL : current_context();
    module->image = -1;
    if (tsr_map_set(&modules, key_of(handle), module))
        return module;
    free(module);
    return NULL;
}

struct tsr_module_record *tsr_module_find(const void *handle)
{
    return handle ? tsr_map_find(&modules, key_of(handle)) : NULL;
}

void tsr_module_alias(const void *handle, const void *of)
{
    struct tsr_module_record *module = tsr_module_find(of);
    if (module)
        tsr_map_set(&modules, key_of(handle), module);
}

struct tsr_function_record *tsr_function_find(const void *handle)
{
    return handle ? tsr_map_find(&functions, key_of(handle)) : NULL;
}

void tsr_function_made_node(const void *handle, const void *kernel)
{
    struct tsr_function_record *function = tsr_function_find(handle);
    if (!function)
        function = tsr_function_find(kernel);
    if (function)
        __atomic_store_n(&function->captured_alone, true, __ATOMIC_RELAXED);
}

struct sought {
    uint32_t id;
    struct tsr_function_record *function;
};

static void seek(uint64_t handle, void *value, void *argument)
{
    struct sought *sought = argument;
    (void)handle;
    if (((const struct tsr_function_record *)value)->id == sought->id)
        sought->function = value;
}

struct tsr_function_record *tsr_function_with_id(uint32_t id)
{
    struct sought sought = {.id = id};
    tsr_map_each(&functions, seek, &sought);
    return sought.function;
}

void tsr_functions_each(void (*visit)(uint64_t handle, void *function, void *argument), void *argument)
{
    tsr_map_each(&functions, visit, argument);
}

static bool is_named(const struct tsr_function_record *function, const char *name)
{
    return name && function->name ? strcmp(function->name, name) == 0 : name == function->name;
}

static struct tsr_function_record *make_function(const void *handle, struct tsr_module_record *module, const char *name,
                                                 bool is_kernel)
{
    struct tsr_function_record *function = calloc(1, sizeof *function);
    if (!function || (name && !(function->name = strdup(name)))) {
        free(function);
        return NULL;
    }
    function->module = module;
    function->id = next_id();
    function->handle = handle;
    function->is_kernel = is_kernel;
    function->context = is_kernel ? NULL : current_context();
    function->name_hash = name ? tsr_hash(name, strlen(name)) : 0;
    function->template = (struct tsr_template_link){.code = module && tsr_options()->templates[0] ? tsr_module_hash(module) : 0,
                                                    .function = function->name_hash};
    return function;
}

/* False: the handle has a record, or there is no memory. */
static bool add_handle(struct tsr_function_record *function, const void *handle)
{
    pthread_mutex_lock(&lock);
    bool added = !tsr_function_find(handle) && tsr_map_set(&functions, key_of(handle), function);
    function->handles += added;
    pthread_mutex_unlock(&lock);
    return added;
}

void tsr_function_note(const void *handle, const void *owner, const char *name, bool is_kernel)
{
    struct tsr_module_record *module = tsr_module_find(owner);
    const struct tsr_function_record *known = tsr_function_find(handle);
    if (!handle || (known && known->module == module && is_named(known, name)))
        return;
    forget_handle(handle);
    struct tsr_function_record *function = make_function(handle, module, name, is_kernel);
    if (function && !add_handle(function, handle))
        free_function(function);
}

void tsr_function_alias(const void *handle, const void *of)
{
    struct tsr_function_record *function = tsr_function_find(of);
    if (!function || tsr_function_find(handle) == function)
        return;
    forget_handle(handle);
    add_handle(function, handle);
}

void tsr_function_read_parameters(struct tsr_function_record *function)
{
    pthread_mutex_lock(&lock);
    if (!function->parameters.known)
        tsr_parameters_read(&function->parameters, function->handle, function->is_kernel);
    pthread_mutex_unlock(&lock);
}
