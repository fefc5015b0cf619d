/*
 * Modules, libraries and functions as the shim knows them: enough to give an executor the same ones.
 *
 * A module's image is kept (in a memory file) from load to unload and sent to an executor when the first of its functions is launched
 * there. CUfunction and CUkernel handles both lead to one record; a launch may be given either.
 */
#ifndef TSR_SHIM_FUNCTIONS_H
#define TSR_SHIM_FUNCTIONS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tsr_lane_client;

struct tsr_function_record {
    uint32_t id;
    struct tsr_module_record *module;
    char *name;
    struct tsr_lane_client *lane; /* decided once per function; NULL: home */
    uint32_t device;
    uint32_t param_count, param_bytes;
    size_t *param_offsets, *param_sizes;
    uint32_t max_threads;       /* of a block */
    uint32_t most_shared_bytes; /* dynamic, per block, as things stand */
    int dynamic_shared_bytes;   /* attribute set by the application; -1: never */
    uint16_t sent;              /* atomic; bit k: executor k knows the function */
};

/* NULL: a handle that the shim has not seen. */
struct tsr_function_record *tsr_function_find(const void *handle);

/* Whether it must run at home: the application holds the address of a variable of its module, of which an executor has a copy of its own. */
bool tsr_function_at_home(const struct tsr_function_record *function);

/* Makes the function known to its executor. Errors: the executor's. */
CUresult tsr_function_send(struct tsr_function_record *function);

/* Size of an image as cuModuleLoadData accepts it, from its own headers; 0: not one of the known forms. */
size_t tsr_image_bytes(const void *image);

#endif
