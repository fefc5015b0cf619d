/* See check_table.h. */
#include "check/check_table.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "calls/calls.h"
#include "lane/functions.h"
#include "launch/launch.h"
#include "check/snapshot.h"
#include "check/clone.h"

#define ROOM(of) (sizeof(of) / sizeof(of)[0])

struct tsr_checks *tsr_check_table_map(void)
{
    const char *path = tsr_options()->checks;
    if (!path[0])
        return NULL;
    int descriptor = tsr_os_open_own(path, O_RDWR);
    struct tsr_checks *checks = MAP_FAILED;
    struct stat status;
    if (descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_size == sizeof *checks)
        checks = mmap(NULL, sizeof *checks, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (descriptor >= 0)
        close(descriptor);
    if (checks != MAP_FAILED && checks->magic == TSR_CHECKS_MAGIC && checks->version == TSR_CHECKS_VERSION &&
        checks->bytes == sizeof *checks && checks->every)
        return checks;
    tsr_warn("the file of checks cannot be used; writes are not checked");
    if (checks != MAP_FAILED)
        munmap(checks, sizeof *checks);
    return NULL;
}

static void put(char *to, size_t room, const char *text)
{
    size_t bytes = strlen(text);
    bytes = bytes < room ? bytes : room - 1;
    memcpy(to, text, bytes);
    to[bytes] = 0;
}

static void put_parameters(struct tsr_check_violation *to, const struct tsr_function_record *function,
                           const struct tsr_check_block *block)
{
    const struct tsr_parameters *parameters = &function->parameters;
    to->parameter_count = parameters->count;
    to->parameter_bytes = block->bytes;
    for (uint32_t i = 0; i < parameters->count && i < ROOM(to->parameters); i++)
        to->parameters[i] = (struct tsr_check_parameter){parameters->all[i].offset, parameters->all[i].bytes};
    memcpy(to->values, block->values, block->bytes < sizeof to->values ? block->bytes : sizeof to->values);
}

static struct tsr_check_range range_of(const struct tsr_access_range *range)
{
    struct tsr_strided_range span = tsr_predicted_span(range);
    return (struct tsr_check_range){span.low, span.high, span.stride, span.width, range->parameter, range->whole};
}

/* Of the access' kind, or all that it may write. */
static void put_predicted(struct tsr_check_violation *to, const struct tsr_check_finding *finding)
{
    const struct tsr_prediction *prediction = finding->prediction;
    for (uint32_t i = 0; i < prediction->count; i++) {
        const struct tsr_access_range *range = &prediction->ranges[i];
        if (finding->access ? range->kind != finding->access->kind : range->kind == TSR_ACCESS_READ)
            continue;
        if (to->predicted_count < ROOM(to->predicted))
            to->predicted[to->predicted_count] = range_of(range);
        to->predicted_count++;
    }
}

static void put_access(struct tsr_check_violation *to, const struct tsr_clone_result *access)
{
    if (!access)
        return;
    to->access = 1 + access->kind;
    to->line = access->line;
    to->accesses = access->outside;
    to->bytes = access->bytes;
    to->before = to->after = 0;
}

void tsr_check_table_report(struct tsr_checks *checks, const struct tsr_check_finding *finding)
{
    uint64_t number = __atomic_fetch_add(&checks->violations, 1, __ATOMIC_RELAXED);
    const struct tsr_launch *launch = finding->launch;
    const char *call = NULL;
    if (number >= ROOM(checks->told))
        return;
    struct tsr_check_violation *to = &checks->told[number];
    *to = (struct tsr_check_violation){.process = (uint32_t)getpid(),
                                       .source = finding->prediction->source - TSR_SOURCE_PTX,
                                       .code = finding->function->template.code,
                                       .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                       .block = {launch->block[0], launch->block[1], launch->block[2]},
                                       .shared_bytes = launch->shared_bytes,
                                       .address = finding->place.address,
                                       .bytes = finding->stray->bytes,
                                       .allocation = finding->place.allocation,
                                       .allocation_bytes = finding->place.allocation_bytes,
                                       .before = finding->stray->there,
                                       .after = finding->stray->here};
    put(to->function, sizeof to->function, finding->function->name);
    if (tessera_library_call && tessera_library_call())
        call = tessera_library_call_name(tessera_library_call());
    put(to->library_call, sizeof to->library_call, call ? call : "");
    put_parameters(to, finding->function, finding->block);
    put_access(to, finding->access);
    to->claim = finding->claim;
    if (finding->claimed)
        to->claimed = range_of(finding->claimed);
    put_predicted(to, finding);
    __atomic_store_n(&to->ready, 1, __ATOMIC_RELEASE);
}
