/*
 * What is loaded: modules, functions, libraries and kernels as objects.
 *
 * - Loaded code (struct tsr_module) is one PTX text decoded for and linked into one context: its variables have their memory there. A
 *   CUmodule is such an object; so is what a library makes for each context that uses it, on first use.
 * - A function belongs to a module; a kernel belongs to a library and leads to one function per context.
 * - A module is counted by its handle and by every launch that has not finished.
 */
#ifndef TSR_ENTRY_LOADED_H
#define TSR_ENTRY_LOADED_H

#include "api/driver.h"

#include "../context/context.h"
#include "../image/image.h"
#include "../ptx/code.h"
#include "jit.h"

/* Attributes that cuFuncSetAttribute and cuKernelSetAttribute change; all fields are accessed atomically. */
struct tsr_function_settings {
    int dynamic_shared_bytes; /* -1: what is left of the block's 48 KiB */
    int carveout;             /* -1: the driver's choice */
    int cluster[3];           /* required cluster when launched without one; 0: none */
    int non_portable_cluster;
    int cluster_policy;
};

struct tsr_module;
struct tsr_library;

struct tsr_kernel;

struct tsr_loaded_entry { /* CUfunction */
    CUfunction handle;
    struct tsr_module *module;
    const struct tsr_function *function;
    struct tsr_kernel *kernel; /* of a library, else NULL */
    struct tsr_function_settings settings;
};

struct tsr_kernel { /* CUkernel */
    CUkernel handle;
    struct tsr_library *library;
    const char *name;
    uint32_t index; /* among the library's kernels */
    struct tsr_function_settings settings[TSR_MACHINE_DEVICES];
};

struct tsr_variable_place {
    uint64_t address;
    const struct tsr_variable *variable;
};

/* Decoded code that a module links, and that a library also reads names and layouts from; counted. */
struct tsr_code_box {
    uint32_t references; /* atomic */
    bool linked;         /* library's lock: some module has linked it, so no other may */
    struct tsr_ptx_code *code;
};
/* Errors: those of decoding (named in the JIT log and in ours), OUT_OF_MEMORY. */
CUresult tsr_code_box_create(const char *text, size_t length, uint32_t device, struct tsr_jit_log *log,
                             struct tsr_code_box **out);
void tsr_code_box_unref(struct tsr_code_box *box);

/* Makes a module in the context; takes the box over, also on error. library: the one it belongs to, or NULL. */
CUresult tsr_module_create(struct tsr_context *context, struct tsr_code_box *box, struct tsr_library *library,
                           struct tsr_jit_log *log, struct tsr_module **out);
/* From an image in any form, for the context's device. */
CUresult tsr_module_load(struct tsr_context *context, const void *image, size_t size, struct tsr_jit_log *log,
                         struct tsr_module **out);
/* Removes the handles and frees the variables; the caller has waited for the context's work. */
void tsr_module_unload(struct tsr_module *module);
void tsr_module_ref(struct tsr_module *module);
void tsr_module_unref(struct tsr_module *module);
CUmodule tsr_module_handle(struct tsr_module *module);
struct tsr_context *tsr_module_context(struct tsr_module *module);
const struct tsr_ptx_code *tsr_module_code(const struct tsr_module *module);
struct tsr_library *tsr_module_library(struct tsr_module *module);
/* NULL: no such entry. */
struct tsr_loaded_entry *tsr_module_entry(struct tsr_module *module, const char *name);
/* The index-th entry, in the order of the text; NULL past the end. */
struct tsr_loaded_entry *tsr_module_entry_at(struct tsr_module *module, uint32_t index);
/* False: no such variable that can be looked up. */
bool tsr_module_variable(struct tsr_module *module, const char *name, struct tsr_variable_place *out);

/*
 * A handle that may be a CUfunction or a CUkernel, in the context. A kernel's library is loaded into the context when it is not yet.
 * Errors: INVALID_HANDLE, those of loading.
 */
CUresult tsr_entry_resolve(struct tsr_context *context, const void *handle, struct tsr_loaded_entry **out);
/* What applies to the function: its own settings, or its kernel's on that device. */
struct tsr_function_settings *tsr_entry_settings(struct tsr_loaded_entry *entry);
void tsr_function_settings_init(struct tsr_function_settings *settings, const struct tsr_function *function);

/* Libraries: see library_object.c. */
CUresult tsr_library_create(const void *image, size_t size, struct tsr_jit_log *log, struct tsr_library **out);
CUlibrary tsr_library_handle(struct tsr_library *library);
CUresult tsr_library_destroy(struct tsr_library *library);
uint32_t tsr_library_kernel_count(struct tsr_library *library);
struct tsr_kernel *tsr_library_kernel_at(struct tsr_library *library, uint32_t index);
struct tsr_kernel *tsr_library_kernel(struct tsr_library *library, const char *name);
/* The library's module in the context, made on first use. */
CUresult tsr_library_module(struct tsr_library *library, struct tsr_context *context, struct tsr_module **out);
/* The index-th context that uses the library; NULL past the end. */
struct tsr_context *tsr_library_context_at(struct tsr_library *library, uint32_t index);
/* The module is gone; its context ended or it was unloaded. */
void tsr_library_forget(struct tsr_library *library, struct tsr_module *module);
/* Description of a kernel without a context: decoded for some device; valid while the library lives. */
const struct tsr_function *tsr_kernel_function(struct tsr_kernel *kernel);
const struct tsr_ptx_code *tsr_library_code(struct tsr_library *library);

#endif
