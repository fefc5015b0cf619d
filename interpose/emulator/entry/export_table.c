/*
 * cuGetExportTable: private tables between the driver and the vendor's own libraries. There are none but one of our own; callers that can do
 * without are told so with the code that the driver uses for a table it does not know.
 */
#include "guard.h"

#include <string.h>

#include <tessera/emulator_table.h>

#include "../context/context.h"
#include "../stream/event.h"

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
    static const CUuuid ours = TSR_EMULATOR_TABLE_ID;
    static const struct tsr_emulator_table table = {sizeof table, event_ns, is_frozen};
    TSR_REQUIRE(ppExportTable && pExportTableId, CUDA_ERROR_INVALID_VALUE);
    bool is_ours = memcmp(pExportTableId, &ours, sizeof ours) == 0;
    *ppExportTable = is_ours ? &table : NULL;
    return is_ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
