/*
 * cuGetExportTable: private tables between the driver and the vendor's own libraries. There are none; callers that can do without are told so
 * with the code that the driver uses for a table it does not know.
 */
#include "guard.h"

CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    TSR_REQUIRE(ppExportTable && pExportTableId, CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
