/* See image.h. */
#include "image/extent.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243b1u
#define CONTAINER_MAGIC 0xba55ed50u

struct fatbin_wrapper {
    uint32_t magic, version;
    const void *data;
};

struct fatbin_container {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};

const void *tsr_image_unwrap(const void *image)
{
    const struct fatbin_wrapper *wrapper = image;
    return wrapper->magic == WRAPPER_MAGIC ? wrapper->data : image;
}

/* As far as its headers and sections reach. */
static size_t elf_bytes(const Elf64_Ehdr *header)
{
    size_t end = header->e_shoff + (size_t)header->e_shentsize * header->e_shnum;
    size_t segments = header->e_phoff + (size_t)header->e_phentsize * header->e_phnum;
    end = end > segments ? end : segments;
    const char *table = (const char *)header + header->e_shoff;
    for (unsigned i = 0; header->e_shentsize == sizeof(Elf64_Shdr) && i < header->e_shnum; i++) {
        const Elf64_Shdr *section = (const Elf64_Shdr *)(table + i * sizeof *section);
        bool stored = section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL;
        if (stored && section->sh_offset + section->sh_size > end)
            end = section->sh_offset + section->sh_size;
    }
    return end;
}

size_t tsr_image_bytes(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == CONTAINER_MAGIC) {
        const struct fatbin_container *container = image;
        return container->header_bytes + container->bytes;
    }
    if (memcmp(image, ELFMAG, SELFMAG) == 0)
        return elf_bytes(image);
    const char *text = image;
    while (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\r')
        text++;
    return *text == '/' || *text == '.' ? strlen(image) + 1 : 0;
}
