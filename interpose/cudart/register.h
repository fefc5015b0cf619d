/*
 * Device code that the program registered before main, and what stands for it on the host: a host function or variable is found by
 * its address. Images are loaded by the driver as libraries when something in them is first needed, never during registration.
 */
#ifndef TESSERA_CUDART_REGISTER_H
#define TESSERA_CUDART_REGISTER_H

#include "cudart/state.h"

/* The kernel that a host function stands for; a kernel handle stands for itself. Needs a current context. */
cudaError_t tsr_cudart_kernel(const void *function, CUkernel *kernel);
/* The reverse: the host function of a kernel, or the kernel itself. */
void *tsr_cudart_host_function(CUkernel kernel);
/* Remembers a handle that reached the program by another way, so that it is accepted as a function. */
cudaError_t tsr_cudart_kernel_note(CUkernel kernel);
/* Address and size of a registered variable on the current device. */
cudaError_t tsr_cudart_variable(const void *host, CUdeviceptr *address, size_t *bytes);

#endif
