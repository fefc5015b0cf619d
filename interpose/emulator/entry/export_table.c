/*
 * cuGetExportTable: private tables between the driver and the vendor's own libraries. There are none but two of our own: one takes the shim's
 * word for what is allocated of the arena, one tells virtual times. Callers that can do without are told so with the code that the driver uses
 * for a table it does not know.
 */
#include "guard.h"

#include <string.h>

#include <tessera/emulator_table.h>

#include "../context/context.h"
#include "../space/bounds.h"
#include "../stream/event.h"
#include "../stream/host_clock.h"

static CUresult event_ns(CUevent handle, uint64_t *ns)
{
    struct tsr_event *event = tsr_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = tsr_event_moment(event, ns);
    tsr_event_put(event);
    return result;
}

static int is_frozen(void)
{
    const struct tsr_machine *machine = tsr_machine_instance();
    return machine && machine->host_time == TSR_HOST_FROZEN;
}

CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    static const struct tsr_emulator_table times = {sizeof times, event_ns, is_frozen, tsr_host_clock_now};
    static const struct tsr_bounds_export bounds = {sizeof bounds, tsr_bounds_use};
    static const struct {
        CUuuid id;
        const void *table;
    } ours[] = {{TSR_EMULATOR_TABLE_ID, &times}, {TSR_BOUNDS_EXPORT, &bounds}};
    TSR_REQUIRE(ppExportTable && pExportTableId, CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = NULL;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (memcmp(pExportTableId, &ours[i].id, sizeof ours[i].id) == 0)
            *ppExportTable = ours[i].table;
    return *ppExportTable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
