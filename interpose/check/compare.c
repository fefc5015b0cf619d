/* See compare.h. */
#include "check/compare.h"

#include <stdlib.h>

#include "driver/real.h"

#define THREADS 256u
#define MOST_BLOCKS 65536u

struct tsr_compare {
    CUmodule module;
    CUfunction compare, copy_rows;
};

/* In t: the highest bit of each byte in which a and b differ; their number is added to %different, the first one's offset is kept. */
#define WORD(number, offset)                                                                                                   \
    "    and.b32 %t, %x" number ", 0x7f7f7f7f;\n"                                                                              \
    "    add.u32 %t, %t, 0x7f7f7f7f;\n"                                                                                        \
    "    or.b32 %t, %t, %x" number ";\n"                                                                                       \
    "    and.b32 %t, %t, 0x80808080;\n"                                                                                        \
    "    popc.b32 %n, %t;\n"                                                                                                   \
    "    add.u32 %different, %different, %n;\n"                                                                                \
    "    brev.b32 %n, %t;\n"                                                                                                   \
    "    clz.b32 %n, %n;\n"                                                                                                    \
    "    shr.u32 %n, %n, 3;\n"                                                                                                 \
    "    add.u32 %n, %n, %at;\n"                                                                                               \
    "    add.u32 %n, %n, " offset ";\n"                                                                                        \
    "    setp.eq.u32 %p, %t, 0;\n"                                                                                             \
    "    selp.u32 %n, 0xffffffff, %n, %p;\n"                                                                                   \
    "    min.u32 %first, %first, %n;\n"

/* A block looks at one chunk, each thread at 16 bytes at a time. What is equal costs two loads and a branch. */
static const char code[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry tessera_compare(.param .u64 here, .param .u64 there, .param .u64 found)\n"
    "{\n"
    "    .reg .pred %p;\n"
    "    .reg .b32 %chunk, %at, %t, %n, %different, %first, %a<4>, %b<4>, %x<4>;\n"
    "    .reg .b64 %here, %there, %found, %offset, %address;\n"
    "    ld.param.u64 %here, [here];\n"
    "    ld.param.u64 %there, [there];\n"
    "    ld.param.u64 %found, [found];\n"
    "    mov.u32 %chunk, %ctaid.x;\n"
    "    mul.wide.u32 %offset, %chunk, 65536;\n"
    "    add.u64 %here, %here, %offset;\n"
    "    add.u64 %there, %there, %offset;\n"
    "    mul.wide.u32 %offset, %chunk, 8;\n"
    "    add.u64 %found, %found, %offset;\n"
    "    mov.u32 %at, %tid.x;\n"
    "    shl.b32 %at, %at, 4;\n"
    "    mov.u32 %different, 0;\n"
    "    mov.u32 %first, 0xffffffff;\n"
    "next:\n"
    "    cvt.u64.u32 %offset, %at;\n"
    "    add.u64 %address, %here, %offset;\n"
    "    ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%address];\n"
    "    add.u64 %address, %there, %offset;\n"
    "    ld.global.v4.u32 {%b0, %b1, %b2, %b3}, [%address];\n"
    "    xor.b32 %x0, %a0, %b0;\n"
    "    xor.b32 %x1, %a1, %b1;\n"
    "    xor.b32 %x2, %a2, %b2;\n"
    "    xor.b32 %x3, %a3, %b3;\n"
    "    or.b32 %t, %x0, %x1;\n"
    "    or.b32 %n, %x2, %x3;\n"
    "    or.b32 %t, %t, %n;\n"
    "    setp.eq.u32 %p, %t, 0;\n"
    "    @%p bra equal;\n" WORD("0", "0") WORD("1", "4") WORD("2", "8") WORD(
        "3",
        "12") "equal:\n"
              "    add.u32 %at, %at, 4096;\n"
              "    setp.lt.u32 %p, %at, 65536;\n"
              "    @%p bra next;\n"
              "    setp.eq.u32 %p, %different, 0;\n"
              "    @%p bra done;\n"
              "    red.global.add.u32 [%found], %different;\n"
              "    red.global.min.u32 [%found+4], %first;\n"
              "done:\n"
              "    ret;\n"
              "}\n"
              ".visible .entry tessera_copy_rows(.param .u64 address, .param .u64 low, .param .u64 high, .param .u64 total,\n"
              "    .param .u64 width, .param .u64 stride, .param .u64 distance)\n"
              "{\n"
              "    .reg .pred %p, %q;\n"
              "    .reg .b32 %t, %n, %value;\n"
              "    .reg .b64 %base, %low, %high, %total, %width, %stride, %distance, %i, %step, %row, %rest, %address;\n"
              "    ld.param.u64 %base, [address];\n"
              "    ld.param.u64 %low, [low];\n"
              "    ld.param.u64 %high, [high];\n"
              "    ld.param.u64 %total, [total];\n"
              "    ld.param.u64 %width, [width];\n"
              "    ld.param.u64 %stride, [stride];\n"
              "    ld.param.u64 %distance, [distance];\n"
              "    mov.u32 %t, %ctaid.x;\n"
              "    mov.u32 %n, %ntid.x;\n"
              "    mul.wide.u32 %i, %t, %n;\n"
              "    mov.u32 %t, %tid.x;\n"
              "    cvt.u64.u32 %row, %t;\n"
              "    add.u64 %i, %i, %row;\n"
              "    mov.u32 %t, %nctaid.x;\n"
              "    mul.wide.u32 %step, %t, %n;\n"
              "again:\n"
              "    setp.ge.u64 %p, %i, %total;\n"
              "    @%p bra end;\n"
              "    div.u64 %row, %i, %width;\n"
              "    mul.lo.u64 %rest, %row, %width;\n"
              "    sub.u64 %rest, %i, %rest;\n"
              "    mul.lo.u64 %address, %row, %stride;\n"
              "    add.u64 %address, %address, %base;\n"
              "    add.u64 %address, %address, %rest;\n"
              "    add.u64 %i, %i, %step;\n"
              "    setp.lt.u64 %p, %address, %low;\n"
              "    setp.ge.u64 %q, %address, %high;\n"
              "    or.pred %p, %p, %q;\n"
              "    @%p bra again;\n"
              "    ld.global.u8 %value, [%address];\n"
              "    add.u64 %address, %address, %distance;\n"
              "    st.global.u8 [%address], %value;\n"
              "    bra again;\n"
              "end:\n"
              "    ret;\n"
              "}\n";

CUresult tsr_compare_create(struct tsr_compare **out)
{
    struct tsr_compare *compare = calloc(1, sizeof *compare);
    if (!compare)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = tsr_real.cuModuleLoadData(&compare->module, code);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuModuleGetFunction(&compare->compare, compare->module, "tessera_compare");
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuModuleGetFunction(&compare->copy_rows, compare->module, "tessera_copy_rows");
    if (result == CUDA_SUCCESS)
        *out = compare;
    else
        tsr_compare_destroy(compare);
    return result;
}

void tsr_compare_destroy(struct tsr_compare *compare)
{
    if (compare->module)
        tsr_real.cuModuleUnload(compare->module);
    free(compare);
}

CUresult tsr_compare_start(const struct tsr_compare *compare, CUdeviceptr here, CUdeviceptr there, uint64_t bytes,
                           CUdeviceptr found, CUstream stream)
{
    void *parameters[] = {&here, &there, &found};
    return tsr_real.cuLaunchKernel(compare->compare, (unsigned)(bytes / TSR_COMPARE_CHUNK), 1, 1, THREADS, 1, 1, 0, stream,
                                   parameters, NULL);
}

CUresult tsr_compare_copy_rows(const struct tsr_compare *compare, const struct tsr_compare_rows *rows, uint64_t distance,
                               CUstream stream)
{
    struct tsr_compare_rows from = *rows;
    uint64_t total = rows->count * rows->width, blocks = (total + THREADS - 1) / THREADS;
    void *parameters[] = {&from.address, &from.low, &from.high, &total, &from.width, &from.stride, &distance};
    return tsr_real.cuLaunchKernel(compare->copy_rows, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1, THREADS,
                                   1, 1, 0, stream, parameters, NULL);
}
