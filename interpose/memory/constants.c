/* See constants.h. */
#include "memory/constants.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "driver/real.h"
#include "lane/functions.h"
#include "memory/allocation.h"
#include "memory/home.h"
#include "memory/memory.h"
#include "object/registry.h"
#include "object/capture.h"

struct tsr_constant {
    struct tsr_constant *next;
    CUdeviceptr variable, address;
    uint64_t allocation; /* its id: the address may have become another's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUstream stream;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    CUresult result = tsr_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) {
        result = tsr_real.cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
        if (result == CUDA_SUCCESS)
            result = tsr_real.cuStreamSynchronize(stream);
        tsr_real.cuStreamDestroy_v2(stream);
    }
    tsr_memory_relax_end(mode);
    return result;
}

/* NULL: there is no memory, or nothing may be allocated now. */
static struct tsr_constant *create(CUdeviceptr variable, size_t bytes)
{
    struct tsr_allocation allocation;
    struct tsr_constant *made = malloc(sizeof *made);
    if (!made || tsr_memory_allocate(bytes, &made->address) != CUDA_SUCCESS) {
        free(made);
        return NULL;
    }
    if (copy(made->address, variable, bytes) != CUDA_SUCCESS || !tsr_memory_describe(made->address, &allocation)) {
        tsr_memory_free(made->address);
        free(made);
        return NULL;
    }
    made->variable = variable;
    made->allocation = allocation.id;
    return made;
}

static struct tsr_constant *find_locked(const struct tsr_module_record *module, CUdeviceptr variable)
{
    struct tsr_constant *found = module->constants;
    while (found && found->variable != variable)
        found = found->next;
    return found;
}

static bool is_managed(CUdeviceptr address)
{
    unsigned managed = 1;
    tsr_real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    return managed;
}

/* Whether the variable can have one. A library's has several addresses, one in each context. */
static bool is_fit(struct tsr_module_record *module, const char *name, CUdeviceptr variable)
{
    return !module->is_library && tsr_memory_at_home() && !tsr_is_any_capture() && !is_managed(variable) &&
           !tsr_module_leads_to(module, name);
}

bool tsr_constant_share(struct tsr_module_record *module, const char *name, CUdeviceptr *address)
{
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    struct tsr_constant *found = find_locked(module, *address);
    /* Who has the driver's address already keeps it. */
    if (!found && !tsr_module_holds(module, name) && is_fit(module, name, *address) &&
        tsr_real.cuModuleGetGlobal_v2(NULL, &bytes, (CUmodule)module->handle, name) == CUDA_SUCCESS &&
        (found = create(*address, bytes)) != NULL) {
        found->next = module->constants;
        module->constants = found;
    }
    pthread_mutex_unlock(&lock);
    if (found)
        *address = found->address;
    return found != NULL;
}

void tsr_constants_free(struct tsr_module_record *module)
{
    struct tsr_allocation allocation;
    while (module->constants) {
        struct tsr_constant *gone = module->constants;
        module->constants = gone->next;
        if (tsr_memory_describe(gone->address, &allocation) && allocation.id == gone->allocation)
            tsr_memory_free(gone->address);
        free(gone);
    }
}
