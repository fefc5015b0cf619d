/*
 * The linker of the driver, for PTX. One input is handed on as it is. Several are loaded as one text: the headers of the later ones are dropped,
 * and so are declarations that an earlier or later input defines; the decoder then resolves them like any others. The result is PTX
 * text, which cuModuleLoadData and cuLibraryLoadData take. Machine code, objects and archives are not linked; for the vendor's device
 * runtime, device_runtime.c stands in.
 */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "../context/handles.h"
#include "../image/image.h"
#include "device_runtime.h"
#include "file.h"
#include "jit.h"
#include "link_text.h"
#include "loaded.h"

struct linker {
    struct tsr_jit_log log;
    TSR_VEC(char *) inputs; /* PTX texts */
    char *result;
    bool complete; /* result decodes */
};

static void linker_destroy(void *object)
{
    struct linker *linker = object;
    for (size_t i = 0; i < linker->inputs.count; i++)
        free(linker->inputs.data[i]);
    tsr_vec_fini(&linker->inputs);
    free(linker->result);
    free(linker);
}

static CUresult find(CUlinkState state, struct linker **out)
{
    TSR_TRY(tsr_driver_ready());
    *out = state ? tsr_handle_find(tsr_handle_table(), TSR_KIND_LINK, state) : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(stateOut, CUDA_ERROR_INVALID_VALUE);
    struct linker *linker = calloc(1, sizeof *linker);
    TSR_REQUIRE(linker, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult result = tsr_jit_parse(numOptions, options, optionValues, &linker->log);
    void *handle = result == CUDA_SUCCESS ? tsr_handle_create(tsr_handle_table(), TSR_KIND_LINK, linker, linker_destroy) : NULL;
    if (!handle) {
        free(linker);
        return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    }
    *stateOut = handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
    return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

/* The PTX of an input, for the current device, to be freed. */
static CUresult text_of(struct linker *linker, CUjitInputType type, const void *data, size_t size, char **out)
{
    struct tsr_context *context;
    struct tsr_image image;
    const char *reason = "";
    TSR_TRY(tsr_context_current(&context));
    if (type == CU_JIT_INPUT_PTX) {
        *out = strndup(data, size);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (type == CU_JIT_INPUT_LIBRARY && tsr_device_runtime_is(data, size)) {
        *out = strdup(tsr_device_runtime_text);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (type != CU_JIT_INPUT_CUBIN && type != CU_JIT_INPUT_FATBINARY) {
        tsr_jit_say(&linker->log.error, "only PTX can be linked, input type %d cannot\n", (int)type);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    const struct tsr_device_desc *desc = tsr_context_desc(context);
    CUresult result = tsr_image_resolve(data, size, desc->compute_major * 10 + desc->compute_minor, &image, &reason);
    if (result != CUDA_SUCCESS) {
        tsr_jit_say(&linker->log.error, "%s\n", reason);
        return result;
    }
    *out = strndup(image.text, image.length);
    tsr_image_fini(&image);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Decodes a text, so that an error is reported with its line. */
static CUresult check_text(struct linker *linker, const char *text)
{
    struct tsr_context *context;
    struct tsr_code_box *box;
    TSR_TRY(tsr_context_current(&context));
    TSR_TRY(tsr_code_box_create(text, strlen(text), tsr_emulated_context_device(context), &linker->log, &box));
    tsr_code_box_unref(box);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                                  unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    struct linker *linker;
    char *text;
    (void)name;
    TSR_TRY(find(state, &linker));
    TSR_REQUIRE(data && size && (int)type >= 0 && type < CU_JIT_NUM_INPUT_TYPES, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!numOptions || (options && optionValues), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(text_of(linker, type, data, size, &text));
    CUresult result = CUDA_SUCCESS;
    if (!strstr(text, ".extern")) /* what only the whole can resolve is checked at the end */
        result = check_text(linker, text);
    if (result == CUDA_SUCCESS && !tsr_vec_push(&linker->inputs, text))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        free(text);
    return result;
}

CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                               unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
                                  CUjit_option *options, void **optionValues)
{
    struct linker *linker;
    struct tsr_file file;
    TSR_TRY(find(state, &linker));
    TSR_REQUIRE(path, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_file_read(path, &file));
    CUresult result = cuLinkAddData_v2(state, type, file.bytes, file.size, path, numOptions, options, optionValues);
    free(file.bytes);
    return result;
}

CUresult CUDAAPI cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
                               CUjit_option *options, void **optionValues)
{
    return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

/* The one text that the inputs make, with the bound on registers that was asked for. */
static CUresult link_inputs(struct linker *linker)
{
    char *whole = tsr_link_text((const char *const *)linker->inputs.data, linker->inputs.count);
    TSR_REQUIRE(whole, CUDA_ERROR_OUT_OF_MEMORY);
    if (linker->log.max_registers) {
        char *bounded = tsr_link_bound_registers(whole, linker->log.max_registers);
        free(whole);
        TSR_REQUIRE(bounded, CUDA_ERROR_OUT_OF_MEMORY);
        whole = bounded;
    }
    CUresult result = check_text(linker, whole);
    if (result != CUDA_SUCCESS) {
        free(whole);
        return result;
    }
    linker->result = whole;
    tsr_jit_say(&linker->log.info, "linked %zu PTX inputs\n", linker->inputs.count);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct linker *linker;
    TSR_TRY(find(state, &linker));
    TSR_REQUIRE(cubinOut && linker->inputs.count, CUDA_ERROR_INVALID_VALUE);
    if (!linker->result)
        TSR_TRY(link_inputs(linker));
    *cubinOut = linker->result;
    if (sizeOut)
        *sizeOut = strlen(linker->result) + 1;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state)
{
    struct linker *linker;
    TSR_TRY(find(state, &linker));
    return tsr_handle_remove(tsr_handle_table(), TSR_KIND_LINK, state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
