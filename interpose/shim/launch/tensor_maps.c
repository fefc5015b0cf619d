/* See tensor_maps.h. The wrappers of the functions that encode tensor maps are here too. */
#include "shim/launch/tensor_maps.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "shim/entry/engaged.h"
#include "shim/entry/real.h"
#include "shim/record/operand_record.h"
#include "shim/record/recorder.h"

#define SETS 512u /* a power of two */
#define WAYS 4u

struct known_map {
    bool used;
    uint8_t bytes[TSR_TENSOR_MAP_BYTES];
    struct tsr_box box;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct set {
    uint32_t newest;
    struct known_map maps[WAYS];
} sets[SETS]; /* lock */

static struct set *set_of(const void *map)
{
    return &sets[tsr_hash(map, TSR_TENSOR_MAP_BYTES) % SETS];
}

static struct known_map *find_locked(const void *map)
{
    struct set *set = set_of(map);
    for (uint32_t i = 0; i < WAYS; i++)
        if (set->maps[i].used && memcmp(set->maps[i].bytes, map, TSR_TENSOR_MAP_BYTES) == 0)
            return &set->maps[i];
    return NULL;
}

static void remember(const void *map, const struct tsr_box *box)
{
    pthread_mutex_lock(&lock);
    struct known_map *known = find_locked(map);
    if (!known) {
        struct set *set = set_of(map);
        set->newest = (set->newest + 1) % WAYS;
        known = &set->maps[set->newest];
    }
    known->used = true;
    known->box = *box;
    memcpy(known->bytes, map, TSR_TENSOR_MAP_BYTES);
    pthread_mutex_unlock(&lock);
}

bool tsr_tensor_map_find(const void *map, struct tsr_box *box)
{
    pthread_mutex_lock(&lock);
    const struct known_map *known = find_locked(map);
    if (known)
        *box = known->box;
    pthread_mutex_unlock(&lock);
    return known;
}

uint32_t tsr_tensor_map_ranges(const void *map, enum tsr_access_kind kind, struct tsr_access_range ranges[TSR_BOX_RANGES])
{
    struct tsr_box box;
    if (tsr_tensor_map_find(map, &box))
        return tsr_box_ranges(&box, kind, ranges);
    ranges[0] = (struct tsr_access_range){.kind = kind, .whole = 1, .parameter = -1, .symbol = -1, .last = -1};
    memcpy(&ranges[0].base, map, sizeof ranges[0].base);
    return 1;
}

/* ---- encoding ---- */

struct encoded {
    enum tsr_row row;
    uint64_t start;
    const CUtensorMap *map;
    CUtensorMapDataType type;
    cuuint32_t rank;
    const void *address;
    const cuuint64_t *dims, *strides;
    CUtensorMapInterleave interleave;
};

/* The types from CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B on have elements of less than a byte. */
static void note(const struct encoded *encoded)
{
    static const uint8_t type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    if ((size_t)encoded->type >= sizeof type_bytes || encoded->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        encoded->rank > TSR_BOX_AXES)
        return;
    struct tsr_box box = {
        .address = (uintptr_t)encoded->address, .element_bytes = type_bytes[encoded->type], .axes = encoded->rank};
    for (cuuint32_t i = 0; i < encoded->rank; i++) {
        box.extents[i] = encoded->dims[i];
        box.strides[i] = i ? encoded->strides[i - 1] : box.element_bytes;
    }
    remember(encoded->map, &box);
    tsr_tensor_record(encoded->start, encoded->row, encoded->map, &box);
}

#define NOTED(symbol, start, result)                                                                                           \
    do {                                                                                                                       \
        if ((result) == CUDA_SUCCESS)                                                                                          \
            note(&(struct encoded){TSR_ROW_##symbol, start, tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,   \
                                   globalStrides, interleave});                                                                \
        tsr_record_failure(TSR_ROW_##symbol, result);                                                                          \
    } while (0)

TSR_ENGAGED(cuTensorMapEncodeTiled)(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                    const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    uint64_t start = tsr_record_start();
    CUresult result =
        tsr_real.cuTensorMapEncodeTiled(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, boxDim,
                                        elementStrides, interleave, swizzle, l2Promotion, oobFill);
    NOTED(cuTensorMapEncodeTiled, start, result);
    return result;
}

TSR_ENGAGED(cuTensorMapEncodeIm2col)(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                     void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                     const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
                                     cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
                                     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    uint64_t start = tsr_record_start();
    CUresult result = tsr_real.cuTensorMapEncodeIm2col(
        tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, pixelBoxLowerCorner,
        pixelBoxUpperCorner, channelsPerPixel, pixelsPerColumn, elementStrides, interleave, swizzle, l2Promotion, oobFill);
    NOTED(cuTensorMapEncodeIm2col, start, result);
    return result;
}

TSR_ENGAGED(cuTensorMapEncodeIm2colWide)(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                         void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                         int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth,
                                         cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                         const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                         CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                         CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    uint64_t start = tsr_record_start();
    CUresult result =
        tsr_real.cuTensorMapEncodeIm2colWide(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                                             pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, channelsPerPixel,
                                             pixelsPerColumn, elementStrides, interleave, mode, swizzle, l2Promotion, oobFill);
    NOTED(cuTensorMapEncodeIm2colWide, start, result);
    return result;
}

TSR_ENGAGED(cuTensorMapReplaceAddress)(CUtensorMap *tensorMap, void *globalAddress)
{
    struct tsr_box box;
    uint64_t start = tsr_record_start();
    bool known = tensorMap && tsr_tensor_map_find(tensorMap, &box);
    CUresult result = tsr_real.cuTensorMapReplaceAddress(tensorMap, globalAddress);
    if (result == CUDA_SUCCESS && known) {
        box.address = (uintptr_t)globalAddress;
        remember(tensorMap, &box);
        tsr_tensor_record(start, TSR_ROW_cuTensorMapReplaceAddress, tensorMap, &box);
    }
    tsr_record_failure(TSR_ROW_cuTensorMapReplaceAddress, result);
    return result;
}
