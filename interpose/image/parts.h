/* The forms of an image, each in its file. Everything is bounds-checked against the span it is given. */
#ifndef TSR_IMAGE_PARTS_H
#define TSR_IMAGE_PARTS_H

#include <stdbool.h>

#include "image.h"

struct tsr_span {
    const uint8_t *data;
    size_t size;
};

/* What was found when there is nothing usable, for the reason. */
struct tsr_image_seen {
    uint32_t machine[16], ptx[16]; /* architectures, in order of appearance */
    uint32_t machine_count, ptx_count;
    bool other; /* entries that are neither (link-time IR) */
};

/*
 * fatbin.c: the best PTX for the device. data: begins with a container; more may follow. NOT_FOUND: none usable (seen is filled in).
 * unbounded: size is not known, the first container's own size counts and nothing after it is looked at.
 */
bool tsr_fatbin_is(struct tsr_span data);
CUresult tsr_fatbin_resolve(struct tsr_span data, bool unbounded, uint32_t device_arch, struct tsr_image *out,
                            struct tsr_image_seen *seen);

/* Every entry of the containers with PTX, or machine code, that is wanted, unpacked. */
typedef bool tsr_fatbin_wanted(void *context, uint32_t arch, bool machine);
typedef void tsr_fatbin_visit(void *context, struct tsr_span entry, uint32_t arch);
CUresult tsr_fatbin_each(struct tsr_span data, tsr_fatbin_wanted *wanted, tsr_fatbin_visit *visit, void *context);

/* elf.c: the PTX in a cubin's debug section. NOT_FOUND: none. size 0: the file's own headers decide. */
CUresult tsr_elf_resolve(struct tsr_span file, struct tsr_image *out, struct tsr_image_seen *seen);
bool tsr_elf_is(struct tsr_span file);
/* A cubin's GPU, for example 90; 0: the file is too short to tell. */
uint32_t tsr_elf_machine(struct tsr_span file);

/* elf_sections.c */
struct tsr_elf_sections {
    uint32_t count;
    struct tsr_span file, headers, names;
};
struct tsr_elf_section {
    const char *name; /* NULL: none, or one that does not end */
    uint32_t type, link, info;
    bool inside; /* the file has all its bytes: */
    struct tsr_span bytes;
};
/* False: the file has no table of sections with their names. */
bool tsr_elf_sections_read(struct tsr_span file, struct tsr_elf_sections *out);
struct tsr_elf_section tsr_elf_section(const struct tsr_elf_sections *sections, uint32_t index); /* below count */
/* A text that a section of texts has; NULL: it is not inside, or does not end there. */
const char *tsr_elf_text(struct tsr_span strings, uint64_t offset);
/* The size of a file of unknown size: as far as its headers reach; 0: they are not those of such a file. */
uint64_t tsr_elf_size(const uint8_t *data);

/* lz4.c: one block that decodes to exactly to_size bytes. */
bool tsr_lz4_decode(struct tsr_span from, uint8_t *to, size_t to_size);

/* image.c: a NUL-terminated copy without trailing NULs. */
CUresult tsr_image_copy(struct tsr_span text, uint32_t arch, struct tsr_image *out);

static inline uint16_t tsr_read16(const uint8_t *at)
{
    uint16_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}
static inline uint32_t tsr_read32(const uint8_t *at)
{
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t tsr_read64(const uint8_t *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

#endif
