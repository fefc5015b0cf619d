/* The wrappers of the functions that encode tensor maps. */
#include "launch/tensor_maps.h"

#include "driver/engaged.h"
#include "driver/real.h"
#include "record/operand_record.h"
#include "record/recorder.h"

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
    tsr_tensor_map_note(encoded->map, &box);
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
        tsr_tensor_map_note(tensorMap, &box);
        tsr_tensor_record(start, TSR_ROW_cuTensorMapReplaceAddress, tensorMap, &box);
    }
    tsr_record_failure(TSR_ROW_cuTensorMapReplaceAddress, result);
    return result;
}
