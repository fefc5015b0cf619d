/*
 * For records of copies whose arguments are structs: how many bytes are copied, and where they begin. Macros, because the structs of
 * different versions have the same fields with different types.
 */
#ifndef TSR_LAUNCH_COPY_SHAPE_H
#define TSR_LAUNCH_COPY_SHAPE_H

#include "api/driver.h"

#include <stddef.h>
#include <stdint.h>

#include <tessera/records.h>

#define TSR_COPY_PLACE(shape, end)                                                                                              \
    ((shape)->end##MemoryType == CU_MEMORYTYPE_HOST    ? (uint64_t)(uintptr_t)(shape)->end##Host                                 \
     : (shape)->end##MemoryType == CU_MEMORYTYPE_ARRAY ? (uint64_t)(uintptr_t)(shape)->end##Array                                \
                                                      : (uint64_t)(shape)->end##Device)

#define TSR_RECORD_COPY_2D(record, shape) TSR_RECORD_COPY_SHAPE(record, shape, (uint64_t)(shape)->WidthInBytes * (shape)->Height)
#define TSR_RECORD_COPY_3D(record, shape)                                                                                       \
    TSR_RECORD_COPY_SHAPE(record, shape, (uint64_t)(shape)->WidthInBytes * (shape)->Height * (shape)->Depth)
#define TSR_RECORD_COPY_SHAPE(record, shape, count)                                                                             \
    do {                                                                                                                       \
        (record)->u.copy.destination = TSR_COPY_PLACE(shape, dst);                                                              \
        (record)->u.copy.source = TSR_COPY_PLACE(shape, src);                                                                   \
        (record)->u.copy.bytes = (count);                                                                                      \
        (record)->u.copy.to = (uint8_t)(shape)->dstMemoryType;                                                                  \
        (record)->u.copy.from = (uint8_t)(shape)->srcMemoryType;                                                                \
    } while (0)

/* Several copies in one call: the places of the first, and the bytes of all. */
static inline void tsr_record_copy_batch(struct tsr_record *record, const CUdeviceptr *destinations, const CUdeviceptr *sources,
                                         const size_t *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        record->u.copy.bytes += sizes[i];
    record->u.copy.destination = count ? destinations[0] : 0;
    record->u.copy.source = count ? sources[0] : 0;
}

#endif
