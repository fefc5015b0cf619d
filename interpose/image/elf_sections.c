/* The sections of ELF files. */
#include <string.h>

#include "parts.h"

enum { HEADER_BYTES = 64, SECTION_BYTES = 64 };
enum { TYPE_NULL = 0, TYPE_NOBITS = 8 };

static bool part(struct tsr_span file, uint64_t offset, uint64_t size, struct tsr_span *out)
{
    if (offset > file.size || size > file.size - offset)
        return false;
    *out = (struct tsr_span){file.data + offset, size};
    return true;
}

static const uint8_t *header_of(const struct tsr_elf_sections *sections, uint32_t index)
{
    return sections->headers.data + (size_t)index * SECTION_BYTES;
}

bool tsr_elf_sections_read(struct tsr_span file, struct tsr_elf_sections *out)
{
    if (file.size < HEADER_BYTES || tsr_read16(file.data + 58) != SECTION_BYTES)
        return false;
    uint16_t count = tsr_read16(file.data + 60), names = tsr_read16(file.data + 62);
    *out = (struct tsr_elf_sections){.file = file, .count = count};
    if (names >= count || !part(file, tsr_read64(file.data + 40), (uint64_t)count * SECTION_BYTES, &out->headers))
        return false;
    const uint8_t *at = header_of(out, names);
    return part(file, tsr_read64(at + 24), tsr_read64(at + 32), &out->names);
}

struct tsr_elf_section tsr_elf_section(const struct tsr_elf_sections *sections, uint32_t index)
{
    const uint8_t *at = header_of(sections, index);
    struct tsr_elf_section section = {.name = tsr_elf_text(sections->names, tsr_read32(at)),
                                      .type = tsr_read32(at + 4),
                                      .link = tsr_read32(at + 40),
                                      .info = tsr_read32(at + 44),
                                      .bytes = {.data = sections->file.data}};
    bool empty = section.type == TYPE_NOBITS || section.type == TYPE_NULL;
    section.inside = empty || part(sections->file, tsr_read64(at + 24), tsr_read64(at + 32), &section.bytes);
    return section;
}

const char *tsr_elf_text(struct tsr_span strings, uint64_t offset)
{
    return offset < strings.size && memchr(strings.data + offset, 0, strings.size - offset)
               ? (const char *)strings.data + offset
               : NULL;
}

uint64_t tsr_elf_size(const uint8_t *data)
{
    uint64_t table = tsr_read64(data + 40), end = table + (uint64_t)tsr_read16(data + 60) * SECTION_BYTES;
    if (table > UINT32_MAX || tsr_read16(data + 58) != SECTION_BYTES)
        return 0;
    for (const uint8_t *at = data + table, *last = data + end; at < last; at += SECTION_BYTES) {
        uint64_t offset = tsr_read64(at + 24), size = tsr_read32(at + 4) == TYPE_NOBITS ? 0 : tsr_read64(at + 32);
        if (offset <= UINT32_MAX && size <= UINT32_MAX && offset + size > end)
            end = offset + size;
    }
    return end;
}
