/* Cubins: ELF files of machine code. `-lineinfo` leaves the PTX in .nv_debug_ptx_txt, its lines separated by NUL. */
#include <string.h>

#include "parts.h"

enum { HEADER_BYTES = 64 };

bool tsr_elf_is(struct tsr_span file)
{
    return file.size >= 4 && memcmp(file.data, "\177ELF", 4) == 0;
}

static CUresult copy_lines(struct tsr_span section, struct tsr_image *out)
{
    CUresult result = tsr_image_copy(section, 0, out);
    for (size_t i = 0; result == CUDA_SUCCESS && i < out->length; i++)
        if (out->text[i] == 0)
            out->text[i] = '\n';
    return result;
}

/* sm number: in the low byte of the flags, or for newer files in the second one. */
uint32_t tsr_elf_machine(struct tsr_span file)
{
    if (file.size < HEADER_BYTES)
        return 0;
    uint32_t flags = tsr_read32(file.data + 48);
    return file.data[8] >= 8 ? flags >> 8 & 0xff : flags & 0xff;
}

CUresult tsr_elf_resolve(struct tsr_span file, struct tsr_image *out, struct tsr_image_seen *seen)
{
    if (file.size == 0)
        file.size = tsr_elf_size(file.data);
    struct tsr_elf_sections sections;
    if (!tsr_elf_sections_read(file, &sections))
        return CUDA_ERROR_INVALID_IMAGE;
    if (seen->machine_count < 16)
        seen->machine[seen->machine_count++] = tsr_elf_machine(file);
    for (uint32_t i = 0; i < sections.count; i++) {
        struct tsr_elf_section section = tsr_elf_section(&sections, i);
        if (section.name && strcmp(section.name, ".nv_debug_ptx_txt") == 0)
            return section.inside ? copy_lines(section.bytes, out) : CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_ERROR_NOT_FOUND;
}
