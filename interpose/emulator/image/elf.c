/* Cubins: ELF files of machine code. `-lineinfo` leaves the PTX in .nv_debug_ptx_txt, its lines separated by NUL. */
#include <string.h>

#include "parts.h"

enum { HEADER_BYTES = 64, SECTION_BYTES = 64 };

struct section {
    uint32_t name;
    uint64_t offset, size;
};

bool tsr_elf_is(struct tsr_span file)
{
    return file.size >= 4 && memcmp(file.data, "\177ELF", 4) == 0;
}

static bool inside(struct tsr_span file, uint64_t offset, uint64_t size)
{
    return offset <= file.size && size <= file.size - offset;
}

static struct section read_section(struct tsr_span file, uint64_t table, uint16_t index)
{
    const uint8_t *at = file.data + table + (uint64_t)index * SECTION_BYTES;
    return (struct section){tsr_read32(at), tsr_read64(at + 24), tsr_read32(at + 4) == 8 ? 0 : tsr_read64(at + 32)};
}

/* The size of a file of unknown size: as far as its headers reach. */
static uint64_t own_size(const uint8_t *data)
{
    uint64_t table = tsr_read64(data + 40), end = table + (uint64_t)tsr_read16(data + 60) * SECTION_BYTES;
    if (table > UINT32_MAX)
        return 0;
    struct tsr_span file = {data, end};
    for (uint16_t i = 0; i < tsr_read16(data + 60); i++) {
        struct section section = read_section(file, table, i);
        if (section.offset <= UINT32_MAX && section.size <= UINT32_MAX && section.offset + section.size > end)
            end = section.offset + section.size;
    }
    return end;
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
    bool unbounded = file.size == 0;
    if (!unbounded && file.size < HEADER_BYTES)
        return CUDA_ERROR_INVALID_IMAGE;
    if (tsr_read16(file.data + 58) != SECTION_BYTES)
        return CUDA_ERROR_INVALID_IMAGE;
    if (unbounded)
        file.size = own_size(file.data);
    uint64_t table = tsr_read64(file.data + 40);
    uint16_t count = tsr_read16(file.data + 60), names_index = tsr_read16(file.data + 62);
    if (!inside(file, table, (uint64_t)count * SECTION_BYTES) || names_index >= count)
        return CUDA_ERROR_INVALID_IMAGE;
    if (seen->machine_count < 16)
        seen->machine[seen->machine_count++] = tsr_elf_machine(file);
    struct section names = read_section(file, table, names_index);
    if (!inside(file, names.offset, names.size))
        return CUDA_ERROR_INVALID_IMAGE;
    static const char wanted[] = ".nv_debug_ptx_txt";
    for (uint16_t i = 0; i < count; i++) {
        struct section section = read_section(file, table, i);
        if (section.name >= names.size || names.size - section.name < sizeof wanted ||
            memcmp(file.data + names.offset + section.name, wanted, sizeof wanted) != 0)
            continue;
        if (!inside(file, section.offset, section.size))
            return CUDA_ERROR_INVALID_IMAGE;
        return copy_lines((struct tsr_span){file.data + section.offset, section.size}, out);
    }
    return CUDA_ERROR_NOT_FOUND;
}
