/* launch/tensor_maps and call_ranges: the driver and the marks of library calls are played here. */
#include "launch/call_ranges.c"
#include "launch/tensor_maps.c"
#include "shim/tensor_maps.c"

#include "check.h"

struct tsr_real tsr_real;

/* Records are played here, too. */
uint32_t tsr_engaged = TSR_RECORDING;
bool tsr_ticks_are_counter;
static struct tsr_box recorded;
static uint32_t recorded_maps, failures;

void tsr_tensor_record(uint64_t start, enum tsr_row row, const void *map, const struct tsr_box *box)
{
    (void)start, (void)row, (void)map;
    recorded = *box;
    recorded_maps++;
}

void tsr_record_failed(uint32_t row, CUresult result)
{
    (void)row, (void)result;
    failures++;
}

/* A driver whose maps begin with the address; `salt` stands for everything else that it encodes. */
static uint64_t salt;

static CUresult encode(CUtensorMap *map, const void *address)
{
    uint64_t words[TSR_TENSOR_MAP_BYTES / 8] = {(uintptr_t)address, salt};
    memcpy(map, words, sizeof words);
    return address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI encode_tiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                     const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                     const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    (void)type, (void)rank, (void)dims, (void)strides, (void)box, (void)element_strides;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    return encode(map, address);
}

static CUresult CUDAAPI replace(CUtensorMap *map, void *address)
{
    memcpy(map, &address, sizeof address);
    return CUDA_SUCCESS;
}

static CUresult make(CUtensorMap *map, uint64_t address, CUtensorMapDataType type, CUtensorMapInterleave interleave)
{
    static const cuuint64_t dims[] = {60, 8}, strides[] = {128};
    static const cuuint32_t box[] = {32, 8}, element_strides[] = {1, 1};
    tsr_real.cuTensorMapEncodeTiled = encode_tiled;
    tsr_real.cuTensorMapReplaceAddress = replace;
    return engaged_cuTensorMapEncodeTiled(map, type, 2, (void *)address, dims, strides, box, element_strides, interleave,
                                          CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void check_rows(const struct tsr_access_range *range, uint64_t address)
{
    CHECK_EQ(range->kind, TSR_ACCESS_WRITE);
    CHECK_EQ(range->base, address);
    CHECK_EQ(range->first, 0);
    CHECK_EQ(range->last, 7 * 128 + 119);
    CHECK_EQ(range->stride, 128);
    CHECK_EQ(range->width, 120);
    CHECK_EQ(range->whole, 0);
}

TEST(a_map_is_known_by_its_bytes)
{
    CUtensorMap map, copy;
    struct tsr_access_range ranges[TSR_BOX_RANGES];
    salt = 1;
    REQUIRE(make(&map, 0x10000, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_INTERLEAVE_NONE) == CUDA_SUCCESS);
    memcpy(&copy, &map, sizeof copy);
    memset(&map, 0, sizeof map);
    REQUIRE(tsr_tensor_map_ranges(&copy, TSR_ACCESS_WRITE, ranges) == 1);
    check_rows(&ranges[0], 0x10000);
    CHECK_EQ(recorded_maps, 1);
    CHECK_EQ(recorded.address, 0x10000);
    CHECK_EQ(engaged_cuTensorMapReplaceAddress(&copy, (void *)0x20000), CUDA_SUCCESS);
    REQUIRE(tsr_tensor_map_ranges(&copy, TSR_ACCESS_WRITE, ranges) == 1);
    check_rows(&ranges[0], 0x20000);
    CHECK_EQ(recorded_maps, 2);
    CHECK_EQ(recorded.address, 0x20000);
}

TEST(of_other_maps_the_address_is_known)
{
    CUtensorMap map;
    struct tsr_access_range ranges[TSR_BOX_RANGES];
    static const struct {
        CUtensorMapDataType type;
        CUtensorMapInterleave interleave;
    } others[] = {{CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_INTERLEAVE_16B},
                  {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, CU_TENSOR_MAP_INTERLEAVE_NONE}};
    for (size_t i = 0; i < 2; i++) {
        salt = 2 + i;
        REQUIRE(make(&map, 0x30000, others[i].type, others[i].interleave) == CUDA_SUCCESS);
        REQUIRE(tsr_tensor_map_ranges(&map, TSR_ACCESS_READ, ranges) == 1);
        CHECK_EQ(ranges[0].whole, 1);
        CHECK_EQ(ranges[0].base, 0x30000);
    }
    CHECK_EQ(make(&map, 0, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_INTERLEAVE_NONE), CUDA_ERROR_INVALID_VALUE);
    CHECK(!tsr_tensor_map_find(&map, &(struct tsr_box){0}));
    CHECK_EQ(failures, 1);
}

TEST(the_newest_maps_stay)
{
    CUtensorMap map;
    struct tsr_box box = {0};
    for (salt = 100; salt < 100 + 10 * SETS * WAYS; salt++)
        REQUIRE(make(&map, 0x40000, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_INTERLEAVE_NONE) == CUDA_SUCCESS);
    CHECK(tsr_tensor_map_find(&map, &box));
    CHECK_EQ(box.address, 0x40000);
}

/* ---- library calls ---- */

static struct tsr_access_range operands[3];
static int32_t operand_count;

int32_t tessera_library_operands(const struct tsr_access_range **ranges, uint32_t *other_gpus, const char **why)
{
    *ranges = operands;
    *other_gpus = 1;
    *why = operand_count < 0 ? "reason" : NULL;
    return operand_count;
}

static int allocation(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void)context;
    *begin = 0x1000;
    *end = 0x3000;
    return address >= *begin && address < *end;
}

static struct tsr_access_range found[2];
static struct tsr_access_result result;

static bool ranges_of_call(void)
{
    struct tsr_access_launch launch = {.allocation = allocation};
    result = (struct tsr_access_result){.ranges = found, .capacity = 2};
    struct tsr_library_operands call = tsr_library_operands_now();
    tsr_call_ranges(&call, &launch, &result);
    return call.other_gpus;
}

TEST(a_launch_gets_the_ranges_of_its_call)
{
    operands[0] = (struct tsr_access_range){.base = 0x5000, .last = 9, .stride = 4, .width = 2};
    operands[1] = (struct tsr_access_range){.kind = TSR_ACCESS_WRITE, .whole = 1, .base = 0x1800, .last = -1};
    operand_count = 1;
    CHECK(ranges_of_call());
    CHECK_EQ(result.level, TSR_LEVEL_FULL);
    CHECK_EQ(result.count, 1);
    CHECK_EQ(memcmp(&found[0], &operands[0], sizeof found[0]), 0);
    operand_count = 2;
    ranges_of_call();
    CHECK_EQ(result.level, TSR_LEVEL_WHOLE);
    CHECK_EQ(result.count, 2);
    CHECK_EQ(found[1].first, -0x800);
    CHECK_EQ(found[1].last, 0x17ff);
}

TEST(what_is_not_known_says_so)
{
    operand_count = -1;
    ranges_of_call();
    CHECK_EQ(result.level, TSR_LEVEL_UNKNOWN);
    CHECK_STR(result.why.text, "reason");
    operand_count = 3;
    ranges_of_call();
    CHECK_EQ(result.level, TSR_LEVEL_UNKNOWN);
    operands[0].whole = 1;
    operand_count = 1;
    ranges_of_call();
    CHECK_EQ(result.level, TSR_LEVEL_UNKNOWN);
    CHECK_STR(result.why.text, "an operand outside of every allocation");
}
