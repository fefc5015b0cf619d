/* See image.h. */
#include "image.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "parts.h"

#define WRAPPER_MAGIC 0x466243b1u

static _Thread_local char reason_text[384];

CUresult tsr_image_copy(struct tsr_span text, uint32_t arch, struct tsr_image *out)
{
    while (text.size && text.data[text.size - 1] == 0)
        text.size--;
    char *copy = malloc(text.size + 1);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    *out = (struct tsr_image){copy, text.size, arch};
    return CUDA_SUCCESS;
}

static size_t list_archs(char *to, size_t size, const char *title, const uint32_t *archs, uint32_t count)
{
    size_t length = count ? tsr_format(to, size, "%s", title) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = 0;
        while (archs[k] != archs[i])
            k++;
        if (k == i)
            length += tsr_format(to + length, size - length, "%ssm_%u", i ? ", " : " ", archs[i]);
    }
    return length;
}

static void explain(const struct tsr_image_seen *seen, uint32_t device_arch)
{
    size_t size = sizeof reason_text,
           length = tsr_format(reason_text, size, "no PTX for sm_%u in the image; it has ", device_arch);
    size_t before = length;
    length += list_archs(reason_text + length, size - length, "PTX for", seen->ptx, seen->ptx_count);
    if (seen->ptx_count && seen->machine_count)
        length += tsr_format(reason_text + length, size - length, " and ");
    length += list_archs(reason_text + length, size - length, seen->ptx_count ? "machine code for" : "only machine code for",
                         seen->machine, seen->machine_count);
    if (seen->machine_count && !seen->ptx_count)
        tsr_format(reason_text + length, size - length,
                   "; emulated GPUs execute PTX: build it with PTX, too (nvcc -gencode arch=compute_80,code=compute_80)");
    if (length == before)
        tsr_format(reason_text + length, size - length, "%s", seen->other ? "only link-time code" : "no code at all");
}

/* Text begins with a directive or a comment. */
static bool is_text(struct tsr_span image)
{
    size_t i = 0;
    while (i < image.size && (image.data[i] == ' ' || (image.data[i] >= '\t' && image.data[i] <= '\r')))
        i++;
    return i < image.size && (image.data[i] == '.' || image.data[i] == '/' || image.data[i] == '@');
}

static CUresult resolve(struct tsr_span image, bool unbounded, uint32_t device_arch, struct tsr_image *out,
                        struct tsr_image_seen *seen)
{
    if (tsr_fatbin_is(image))
        return tsr_fatbin_resolve(image, unbounded, device_arch, out, seen);
    if (tsr_elf_is(image)) {
        if (unbounded)
            image.size = 0;
        return tsr_elf_resolve(image, out, seen);
    }
    if (unbounded)
        image.size = strlen((const char *)image.data);
    if (!is_text(image))
        return CUDA_ERROR_INVALID_IMAGE;
    size_t end = strnlen((const char *)image.data, image.size);
    return tsr_image_copy((struct tsr_span){image.data, end}, 0, out);
}

CUresult tsr_image_resolve(const void *image, size_t size, uint32_t device_arch, struct tsr_image *out, const char **reason)
{
    struct tsr_image_seen seen = {0};
    struct tsr_span span = {image, size};
    bool unbounded = size == 0;
    *reason = "";
    if (!image || (size && size < 4)) {
        *reason = "the image is too small to be PTX, a fat binary or a cubin";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (unbounded && strnlen(image, 4) < 4) {
        *reason = "the image is too small to be PTX, a fat binary or a cubin";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (tsr_read32(span.data) == WRAPPER_MAGIC) {
        if (!unbounded && size < 16) {
            *reason = "the fat binary wrapper is cut off";
            return CUDA_ERROR_INVALID_IMAGE;
        }
        span.data = (const uint8_t *)(uintptr_t)tsr_read64(span.data + 8);
        unbounded = true;
        if (!span.data || !tsr_fatbin_is((struct tsr_span){span.data, sizeof(uint32_t)})) {
            *reason = "the fat binary wrapper points to no fat binary";
            return CUDA_ERROR_INVALID_IMAGE;
        }
    }
    if (unbounded)
        span.size = 64;
    CUresult result = resolve(span, unbounded, device_arch, out, &seen);
    if (result == CUDA_ERROR_NOT_FOUND) {
        explain(&seen, device_arch);
        *reason = reason_text;
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (result == CUDA_ERROR_INVALID_IMAGE)
        *reason = "the image is damaged, or neither PTX text nor a fat binary nor a cubin";
    else if (result == CUDA_ERROR_OUT_OF_MEMORY)
        *reason = "out of memory";
    return result;
}

void tsr_image_fini(struct tsr_image *image)
{
    free(image->text);
    *image = (struct tsr_image){0};
}
