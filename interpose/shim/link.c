/*
 * What the driver links at run time: the PTX that goes in is handed to the control plane together with the image that comes out, because
 * machine code alone says less. Only if code is wanted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/options.h"
#include "base/vec.h"
#include "driver/real.h"
#include "image/extent.h"
#include "record/code.h"
#include "record/recorder.h"

#define MOST_INPUT_BYTES (16u << 20)

struct input {
    void *data;
    size_t bytes;
};

struct link {
    TSR_VEC(struct input) inputs;
};

static struct tsr_map links; /* CUlinkState to struct link; a link is one thread's at a time */

static void add(CUlinkState state, const void *data, size_t bytes)
{
    struct link *link = tsr_map_find(&links, (uintptr_t)state);
    if (!link && (link = calloc(1, sizeof *link)) && !tsr_map_set(&links, (uintptr_t)state, link)) {
        free(link);
        return;
    }
    struct input input = {.data = link ? malloc(bytes) : NULL, .bytes = bytes};
    if (!input.data)
        return;
    memcpy(input.data, data, bytes);
    if (!tsr_vec_push(&link->inputs, input))
        free(input.data);
}

static void forget(CUlinkState state)
{
    struct link *link = tsr_map_remove(&links, (uintptr_t)state);
    if (!link)
        return;
    for (size_t i = 0; i < link->inputs.count; i++)
        free(link->inputs.data[i].data);
    tsr_vec_fini(&link->inputs);
    free(link);
}

static void hand_over(CUlinkState state, uint64_t linked_into)
{
    const struct link *link = tsr_map_find(&links, (uintptr_t)state);
    for (size_t i = 0; link && i < link->inputs.count; i++) {
        struct tsr_code code;
        tsr_code_find(&code, link->inputs.data[i].data, link->inputs.data[i].bytes, "");
        tsr_code_hand_over(&code, 0, linked_into);
        tsr_code_done(&code);
    }
}

TSR_ENGAGED(cuLinkAddData_v2)(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                              unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    CUresult result = tsr_real.cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
    if (result == CUDA_SUCCESS && type == CU_JIT_INPUT_PTX && tsr_options()->code && size <= MOST_INPUT_BYTES)
        add(state, data, size);
    tsr_record_failure(TSR_ROW_cuLinkAddData_v2, result);
    return result;
}

TSR_ENGAGED(cuLinkAddFile_v2)(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
                              CUjit_option *options, void **optionValues)
{
    CUresult result = tsr_real.cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
    if (result == CUDA_SUCCESS && type == CU_JIT_INPUT_PTX && tsr_options()->code) {
        struct tsr_code code;
        tsr_code_find(&code, NULL, 0, path);
        if (code.data && code.bytes <= MOST_INPUT_BYTES)
            add(state, code.data, code.bytes);
        tsr_code_done(&code);
    }
    tsr_record_failure(TSR_ROW_cuLinkAddFile_v2, result);
    return result;
}

TSR_ENGAGED(cuLinkComplete)(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    CUresult result = tsr_real.cuLinkComplete(state, cubinOut, sizeOut);
    size_t loaded = result == CUDA_SUCCESS && tsr_options()->code ? tsr_image_bytes(*cubinOut) : 0;
    if (loaded)
        hand_over(state, tsr_hash(*cubinOut, loaded));
    tsr_record_failure(TSR_ROW_cuLinkComplete, result);
    return result;
}

TSR_ENGAGED(cuLinkDestroy)(CUlinkState state)
{
    CUresult result = tsr_real.cuLinkDestroy(state);
    if (result == CUDA_SUCCESS)
        forget(state);
    tsr_record_failure(TSR_ROW_cuLinkDestroy, result);
    return result;
}
