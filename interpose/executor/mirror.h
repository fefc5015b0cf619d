/*
 * What an executor holds for the application that it serves: the arena with its mappings, modules, functions, graphs and streams, under the ids that
 * the shim gave them. One application at a time; everything is freed when it leaves.
 */
#ifndef TSR_EXECUTOR_MIRROR_H
#define TSR_EXECUTOR_MIRROR_H

#include <stdint.h>

#include <cuda.h>
#include <tessera/lane.h>

struct tsr_carry_function;
struct tsr_mirror;

CUresult tsr_mirror_create(CUdevice device, struct tsr_mirror **out);
void tsr_mirror_destroy(struct tsr_mirror *mirror);

/* Carries out a control message other than HELLO, and fills in the answer. Takes the descriptor (-1: none). */
void tsr_mirror_apply(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor, struct tsr_reply *reply);

/* NULL: unknown id. It lives as long as its module. */
const struct tsr_carry_function *tsr_mirror_function(const struct tsr_mirror *mirror, uint32_t id);
CUstream tsr_mirror_stream(const struct tsr_mirror *mirror, uint32_t slot);
/* Launches a graph. Errors: the driver's; INVALID_HANDLE: unknown id. */
CUresult tsr_mirror_launch(const struct tsr_mirror *mirror, uint32_t id, CUstream stream);

#endif
