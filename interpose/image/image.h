/*
 * From what an application hands to the driver to PTX text.
 *
 * Accepted: NUL-terminated PTX text; a fat binary (wrapper 0x466243B1 or container 0xBA55ED50; entries plain, LZ4 or zstd); a cubin (ELF)
 * that carries its PTX in .nv_debug_ptx_txt. Among several PTX entries the newest whose architecture is at most the device's wins;
 * entries for an architecture-specific target (`a`) only match that very architecture.
 * Every length in the image is checked against the container's own size; a malformed image is an error, never a read outside of it.
 */
#ifndef TSR_IMAGE_H
#define TSR_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

struct tsr_image {
    char *text;    /* PTX, NUL-terminated, owned */
    size_t length; /* without the NUL */
    uint32_t arch; /* of the entry, e.g. 80; 0 when unknown (plain text) */
};

/*
 * image: as given to cuModuleLoadData. size: its size when the caller knows it, else 0 (then the image's own headers decide, as in the driver).
 * device_arch: e.g. 90 for sm_90.
 * Errors: INVALID_IMAGE (not one of the forms, or damaged), NO_BINARY_FOR_GPU (no PTX usable on this device; reason says what was found,
 * e.g. "only machine code for sm_90"), OUT_OF_MEMORY. reason is set on every error, static or thread-local text.
 */
CUresult tsr_image_resolve(const void *image, size_t size, uint32_t device_arch, struct tsr_image *out, const char **reason);
void tsr_image_fini(struct tsr_image *image);

#endif
