/*
 * Which driver functions the shim wraps; all others are forwarded by a jump (forward.c). Defining TSR_WRAPS_<symbol> as TSR_YES is all
 * that marks one; its wrapper is an ordinary function with the exported name.
 */
#ifndef TSR_SHIM_WRAPPED_H
#define TSR_SHIM_WRAPPED_H

#define TSR_YES ~, 1
#define TSR_WRAPS_SECOND(a, b, ...) b
#define TSR_WRAPS_TEST(...) TSR_WRAPS_SECOND(__VA_ARGS__, 0, ~)
#define TSR_WRAPS(symbol) TSR_WRAPS_TEST(TSR_WRAPS_##symbol)

#define TSR_WRAPS_cuInit TSR_YES
#define TSR_WRAPS_cuGetProcAddress TSR_YES
#define TSR_WRAPS_cuGetProcAddress_v2 TSR_YES

#define TSR_WRAPS_cuModuleLoadData TSR_YES
#define TSR_WRAPS_cuModuleLoadDataEx TSR_YES
#define TSR_WRAPS_cuModuleLoadFatBinary TSR_YES
#define TSR_WRAPS_cuModuleUnload TSR_YES
#define TSR_WRAPS_cuModuleGetFunction TSR_YES
#define TSR_WRAPS_cuModuleGetGlobal_v2 TSR_YES
#define TSR_WRAPS_cuLibraryGetGlobal TSR_YES
#define TSR_WRAPS_cuLibraryGetManaged TSR_YES
#define TSR_WRAPS_cuLibraryLoadData TSR_YES
#define TSR_WRAPS_cuLibraryUnload TSR_YES
#define TSR_WRAPS_cuLibraryGetKernel TSR_YES
#define TSR_WRAPS_cuKernelGetFunction TSR_YES
#define TSR_WRAPS_cuFuncSetAttribute TSR_YES
#define TSR_WRAPS_cuKernelSetAttribute TSR_YES

#define TSR_WRAPS_cuMemAlloc_v2 TSR_YES
#define TSR_WRAPS_cuMemFree_v2 TSR_YES
#define TSR_WRAPS_cuMemGetAddressRange_v2 TSR_YES

#define TSR_WRAPS_cuLaunchKernel TSR_YES
#define TSR_WRAPS_cuLaunchKernel_ptsz TSR_YES
#define TSR_WRAPS_cuLaunchKernelEx TSR_YES
#define TSR_WRAPS_cuLaunchKernelEx_ptsz TSR_YES

#include "wrapped_joins.h" /* generated: those that only join */

#endif
