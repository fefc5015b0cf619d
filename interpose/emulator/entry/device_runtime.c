/*
 * See device_runtime.h. The handle of a grid is the address of its workspace, which %envreg1 and %envreg2 hold in a cooperative launch and
 * which are 0 in others. Its second word is the barrier: every block adds one, the first block what is missing to flip the highest bit, and all
 * wait for that bit. The same word in the same way serves grid.sync() of cooperative_groups.h, which the compiler expands in line.
 */
#include "device_runtime.h"

#include <string.h>

#define ARCHIVE "!<arch>\n"

bool tsr_device_runtime_is(const void *archive, size_t size)
{
    static const char member[] = "cuda_device_runtime";
    return size >= sizeof ARCHIVE && memcmp(archive, ARCHIVE, sizeof ARCHIVE - 1) == 0 &&
           memmem(archive, size, member, sizeof member - 1) != NULL;
}

const char tsr_device_runtime_text[] =
    ".version 6.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)\n"
    "{\n"
    "  .reg .b32 %high, %low;\n"
    "  .reg .b64 %grid;\n"
    "  mov.u32 %high, %envreg1;\n"
    "  mov.u32 %low, %envreg2;\n"
    "  mov.b64 %grid, {%low, %high};\n"
    "  st.param.b64 [handle], %grid;\n"
    "  ret;\n"
    "}\n"
    ".visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)\n"
    "{\n"
    "  .reg .b32 %a, %b, %blocks, %share, %old, %now;\n"
    "  .reg .b64 %grid;\n"
    "  .reg .pred %p;\n"
    "  ld.param.b64 %grid, [handle];\n"
    "  setp.eq.u64 %p, %grid, 0;\n"
    "  @%p bra REFUSED;\n"
    "  barrier.sync 0;\n"
    "  mov.u32 %a, %tid.x;\n"
    "  mov.u32 %b, %tid.y;\n"
    "  or.b32 %a, %a, %b;\n"
    "  mov.u32 %b, %tid.z;\n"
    "  or.b32 %a, %a, %b;\n"
    "  setp.ne.u32 %p, %a, 0;\n"
    "  @%p bra MET;\n"
    "  mov.u32 %blocks, %nctaid.x;\n"
    "  mov.u32 %b, %nctaid.y;\n"
    "  mul.lo.u32 %blocks, %blocks, %b;\n"
    "  mov.u32 %b, %nctaid.z;\n"
    "  mul.lo.u32 %blocks, %blocks, %b;\n"
    "  mov.u32 %a, %ctaid.x;\n"
    "  mov.u32 %b, %ctaid.y;\n"
    "  or.b32 %a, %a, %b;\n"
    "  mov.u32 %b, %ctaid.z;\n"
    "  or.b32 %a, %a, %b;\n"
    "  setp.eq.u32 %p, %a, 0;\n"
    "  sub.u32 %share, 0x80000001, %blocks;\n"
    "  selp.b32 %share, %share, 1, %p;\n"
    "  membar.gl;\n"
    "  atom.global.add.u32 %old, [%grid+4], %share;\n"
    "WAIT:\n"
    "  ld.volatile.global.u32 %now, [%grid+4];\n"
    "  xor.b32 %now, %now, %old;\n"
    "  setp.ge.s32 %p, %now, 0;\n"
    "  @%p bra WAIT;\n"
    "  membar.gl;\n"
    "MET:\n"
    "  barrier.sync 0;\n"
    "  mov.u32 %a, 0;\n"
    "  st.param.b32 [result], %a;\n"
    "  ret;\n"
    "REFUSED:\n"
    "  mov.u32 %a, 1;\n"
    "  st.param.b32 [result], %a;\n"
    "  ret;\n"
    "}\n";
