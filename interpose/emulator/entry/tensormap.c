/*
 * Tensor maps: the description of a tensor that TMA instructions take. The interpreter (exec/) has no TMA; what is encoded here can be passed to
 * kernels and read by tools. The first 8 bytes are the tensor's global address, as on hardware; the rest is private:
 * see struct encoded.
 */
#include "guard.h"

#include <string.h>

#define RANK_MOST 5

struct encoded {
    uint64_t address;
    uint8_t kind, data_type, rank, interleave, swizzle, l2_promotion, oob_fill, reserved;
    uint64_t strides[RANK_MOST - 1]; /* bytes */
    uint32_t dims[RANK_MOST];        /* less 1 */
    uint32_t box[RANK_MOST];         /* tiled: the box. im2col: channels, pixels, corners packed two by two */
    uint32_t element_strides;        /* 4 bits per dimension, less 1 */
    uint32_t unused[5];
};
_Static_assert(sizeof(struct encoded) <= sizeof(CUtensorMap), "fits");

static const uint8_t type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};

static CUresult encode(struct encoded *out, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dims,
                       const cuuint64_t *strides, const cuuint32_t *element_strides, int interleave, int swizzle, int l2,
                       int fill)
{
    TSR_REQUIRE((int)type >= 0 && type < (int)sizeof type_bytes && rank >= 1 && rank <= RANK_MOST, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(address && (uintptr_t)address % (interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16) == 0,
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(dims && element_strides && (strides || rank == 1), CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(interleave >= 0 && interleave <= CU_TENSOR_MAP_INTERLEAVE_32B && (!interleave || rank >= 3),
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(swizzle >= 0 && swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B && l2 >= 0 &&
                    l2 <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(fill == 0 || fill == 1, CUDA_ERROR_INVALID_VALUE);
    for (cuuint32_t i = 0; i < rank; i++) {
        TSR_REQUIRE(dims[i] && dims[i] <= 1ull << 32, CUDA_ERROR_INVALID_VALUE);
        TSR_REQUIRE(element_strides[i] && element_strides[i] <= 8, CUDA_ERROR_INVALID_VALUE);
        out->dims[i] = (uint32_t)(dims[i] - 1);
        out->element_strides |= (element_strides[i] - 1) << (4 * i);
    }
    for (cuuint32_t i = 0; i + 1 < rank; i++) {
        TSR_REQUIRE(strides[i] % 16 == 0 && strides[i] < 1ull << 40, CUDA_ERROR_INVALID_VALUE);
        out->strides[i] = strides[i];
    }
    out->address = (uint64_t)(uintptr_t)address;
    out->data_type = (uint8_t)type;
    out->rank = (uint8_t)rank;
    out->interleave = (uint8_t)interleave;
    out->swizzle = (uint8_t)swizzle;
    out->l2_promotion = (uint8_t)l2;
    out->oob_fill = (uint8_t)fill;
    return CUDA_SUCCESS;
}

static CUresult supported(CUtensorMap *map)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(tsr_context_desc(context)->compute_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
    TSR_REQUIRE(map && (uintptr_t)map % 64 == 0, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static void store(CUtensorMap *map, const struct encoded *encoded)
{
    memset(map, 0, sizeof *map);
    memcpy(map, encoded, sizeof *encoded);
}

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                        const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    struct encoded encoded = {.kind = 1};
    TSR_TRY(supported(tensorMap));
    TSR_REQUIRE(boxDim, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(encode(&encoded, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, elementStrides,
                   (int)interleave, (int)swizzle, (int)l2Promotion, (int)oobFill));
    for (cuuint32_t i = 0; i < tensorRank; i++) {
        TSR_REQUIRE(boxDim[i] && boxDim[i] <= 256, CUDA_ERROR_INVALID_VALUE);
        encoded.box[i] = boxDim[i];
    }
    uint32_t row_bytes = boxDim[0] * type_bytes[tensorDataType];
    TSR_REQUIRE(interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || row_bytes % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    static const uint32_t swizzle_rows[] = {UINT32_MAX, 32, 64, 128, 128, 128, 128};
    TSR_REQUIRE(interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || row_bytes <= swizzle_rows[swizzle], CUDA_ERROR_INVALID_VALUE);
    store(tensorMap, &encoded);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                         void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                         const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
                                         cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                         const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                         CUtensorMapFloatOOBfill oobFill)
{
    struct encoded encoded = {.kind = 2};
    TSR_TRY(supported(tensorMap));
    TSR_REQUIRE(pixelBoxLowerCorner && pixelBoxUpperCorner && tensorRank >= 3, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(channelsPerPixel && channelsPerPixel <= 256 && pixelsPerColumn && pixelsPerColumn <= 1024,
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(encode(&encoded, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, elementStrides,
                   (int)interleave, (int)swizzle, (int)l2Promotion, (int)oobFill));
    encoded.box[0] = channelsPerPixel;
    encoded.box[1] = pixelsPerColumn;
    for (cuuint32_t i = 0; i + 2 < tensorRank; i++)
        encoded.box[2 + i] = (uint32_t)(uint16_t)pixelBoxLowerCorner[i] << 16 | (uint16_t)pixelBoxUpperCorner[i];
    store(tensorMap, &encoded);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
    TSR_TRY(supported(tensorMap));
    TSR_REQUIRE(globalAddress && (uintptr_t)globalAddress % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    uint64_t address = (uint64_t)(uintptr_t)globalAddress;
    memcpy(tensorMap, &address, sizeof address);
    return CUDA_SUCCESS;
}
