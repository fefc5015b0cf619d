/*
 * cuGetExportTable: private tables between the driver and the vendor's own libraries. There are none; callers that can do without are told so
 * with the code that the driver uses for a table it does not know. One is ours: it takes the shim's word for what is allocated of the arena.
 */
#include "guard.h"

#include <string.h>

#include "../memory/bounds.h"

CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    static const CUuuid bounds_id = TSR_BOUNDS_EXPORT;
    static const struct tsr_bounds_export bounds = {sizeof bounds, tsr_bounds_use};
    TSR_REQUIRE(ppExportTable && pExportTableId, CUDA_ERROR_INVALID_VALUE);
    bool known = memcmp(pExportTableId, &bounds_id, sizeof bounds_id) == 0;
    *ppExportTable = known ? &bounds : NULL;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
