/* See collective.h. */
#include "object/collective.h"

#include <string.h>

#include "calls/calls.h"
#include "object/module_image.h"
#include "object/registry.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool tsr_is_collective_code(const struct tsr_function_record *function)
{
    const char *name = function->name ? function->name : "",
               *module = function->module ? tsr_module_name(function->module) : "";
    /* As the driver knows them: ncclDevKernel_... since 2.19, ncclKernel_... before, mangled where they are C++ */
    return begins(module, "libnccl.so") || strstr(name, "ncclDevKernel") || strstr(name, "ncclKernel") ||
           strstr(name, "ncclSymkDevKernel") || strstr(name, "ncclSymDevKernel");
}

bool tsr_is_collective_call(void)
{
    uint32_t call = tessera_library_call ? tessera_library_call() : 0;
    const char *name = call ? tessera_library_call_name(call) : NULL;
    return name && begins(name, "nccl");
}
