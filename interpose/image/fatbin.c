/*
 * Fat binary containers: a 16-byte header (magic, version, header size, size of what follows), then entries. Each entry's header says
 * its own size (64 bytes and more), the size of its padded payload and, when it is compressed, both sizes.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "third_party/zstd/zstd_decoder.h"

#define MAGIC 0xba55ed50u
#define PAYLOAD_BYTES_MAX ((uint64_t)1 << 30)

enum { KIND_PTX = 1, KIND_ELF = 2 };
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000, FLAG_ARCH_SPECIFIC = 0x100000, FLAG_FAMILY = 0x200000 };
enum { CONTAINER_HEADER = 16, ENTRY_HEADER = 64 };

struct entry {
    uint16_t kind;
    uint32_t arch;
    uint64_t flags, plain_size;
    struct tsr_span payload; /* as stored */
};

static bool is_usable(const struct entry *entry, uint32_t device_arch)
{
    if (entry->flags & FLAG_ARCH_SPECIFIC)
        return entry->arch == device_arch;
    if (entry->flags & FLAG_FAMILY)
        return entry->arch <= device_arch && entry->arch / 10 == device_arch / 10;
    return entry->arch <= device_arch;
}

/* False at the end of the entries; *damaged says whether that was not in order. */
static bool next_entry(struct tsr_span *rest, struct entry *entry, bool *damaged)
{
    if (rest->size < ENTRY_HEADER || tsr_read16(rest->data) == 0)
        return false;
    const uint8_t *at = rest->data;
    uint32_t header = tsr_read32(at + 4), compressed = tsr_read32(at + 16);
    uint64_t padded = tsr_read64(at + 8);
    *damaged = header < ENTRY_HEADER || header > rest->size || padded > rest->size - header || compressed > padded;
    if (*damaged)
        return false;
    *entry = (struct entry){
        .kind = tsr_read16(at), .arch = tsr_read32(at + 28), .flags = tsr_read64(at + 40), .plain_size = tsr_read64(at + 56)};
    entry->payload = (struct tsr_span){at + header, compressed ? compressed : padded};
    rest->data += header + padded;
    rest->size -= header + padded;
    return true;
}

/* The payload as it was before compression; *owned is to be freed. */
static CUresult unpack(const struct entry *entry, struct tsr_span *plain, uint8_t **owned)
{
    *owned = NULL;
    *plain = entry->payload;
    if (!(entry->flags & (FLAG_LZ4 | FLAG_ZSTD)))
        return CUDA_SUCCESS;
    if (!entry->plain_size || entry->plain_size > PAYLOAD_BYTES_MAX)
        return CUDA_ERROR_INVALID_IMAGE;
    uint8_t *to = malloc(entry->plain_size);
    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool good;
    if (entry->flags & FLAG_ZSTD) {
        size_t written = ZSTD_decompress(to, entry->plain_size, entry->payload.data, entry->payload.size);
        good = !ZSTD_isError(written) && written == entry->plain_size;
    } else {
        good = tsr_lz4_decode(entry->payload, to, entry->plain_size);
    }
    if (!good) {
        free(to);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *owned = to;
    *plain = (struct tsr_span){to, entry->plain_size};
    return CUDA_SUCCESS;
}

static CUresult take(const struct entry *entry, struct tsr_image *out)
{
    struct tsr_span plain;
    uint8_t *owned;
    struct tsr_image_seen ignored = {0};
    CUresult result = unpack(entry, &plain, &owned);
    if (result != CUDA_SUCCESS)
        return result;
    if (entry->kind == KIND_PTX)
        result = tsr_image_copy(plain, entry->arch, out);
    else
        result = tsr_elf_is(plain) ? tsr_elf_resolve(plain, out, &ignored) : CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_SUCCESS)
        out->arch = entry->arch;
    free(owned);
    return result;
}

typedef bool visit_fn(const struct entry *entry, void *context);

struct selection {
    uint32_t device_arch;
    struct tsr_image_seen *seen;
    struct entry best;
    bool found;
};

static bool visit_choose(const struct entry *entry, void *context)
{
    struct selection *selection = context;
    struct tsr_image_seen *seen = selection->seen;
    if (entry->kind == KIND_PTX) {
        if (seen->ptx_count < 16)
            seen->ptx[seen->ptx_count++] = entry->arch;
        if (is_usable(entry, selection->device_arch) && (!selection->found || entry->arch > selection->best.arch)) {
            selection->best = *entry;
            selection->found = true;
        }
    } else if (entry->kind == KIND_ELF) {
        if (seen->machine_count < 16)
            seen->machine[seen->machine_count++] = entry->arch;
    } else {
        seen->other = true;
    }
    return true;
}

/* Cubins that carry PTX, when there is no entry with PTX itself. */
struct cubin_search {
    uint32_t device_arch;
    struct tsr_image *out;
    CUresult result;
};

static bool visit_cubin(const struct entry *entry, void *context)
{
    struct cubin_search *search = context;
    if (entry->kind != KIND_ELF || !is_usable(entry, search->device_arch))
        return true;
    search->result = take(entry, search->out);
    return search->result == CUDA_ERROR_NOT_FOUND;
}

bool tsr_fatbin_is(struct tsr_span data)
{
    return data.size >= sizeof(uint32_t) && tsr_read32(data.data) == MAGIC;
}

/* All entries of all containers; stops when visit says false. False: damaged. */
static bool walk(struct tsr_span data, bool unbounded, visit_fn *visit, void *context)
{
    while (data.size >= CONTAINER_HEADER && tsr_fatbin_is(data)) {
        uint16_t header = tsr_read16(data.data + 6);
        uint64_t size = tsr_read64(data.data + 8);
        if (header < CONTAINER_HEADER || size > PTRDIFF_MAX ||
            (!unbounded && (header > data.size || size > data.size - header)))
            return false;
        struct tsr_span rest = {data.data + header, size};
        struct entry entry;
        bool damaged = false;
        while (next_entry(&rest, &entry, &damaged))
            if (!visit(&entry, context))
                return true;
        if (damaged)
            return false;
        if (unbounded)
            return true;
        data.data += header + size;
        data.size -= header + size;
    }
    return true;
}

CUresult tsr_fatbin_resolve(struct tsr_span data, bool unbounded, uint32_t device_arch, struct tsr_image *out,
                            struct tsr_image_seen *seen)
{
    struct selection selection = {.device_arch = device_arch, .seen = seen};
    if (!walk(data, unbounded, visit_choose, &selection))
        return CUDA_ERROR_INVALID_IMAGE;
    if (selection.found)
        return take(&selection.best, out);
    struct cubin_search search = {device_arch, out, CUDA_ERROR_NOT_FOUND};
    walk(data, unbounded, visit_cubin, &search);
    return search.result;
}

struct each {
    tsr_fatbin_wanted *wanted;
    tsr_fatbin_visit *visit;
    void *context;
    CUresult result;
};

static bool visit_each(const struct entry *entry, void *context)
{
    struct each *each = context;
    struct tsr_span plain;
    uint8_t *owned;
    if ((entry->kind != KIND_PTX && entry->kind != KIND_ELF) ||
        !each->wanted(each->context, entry->arch, entry->kind == KIND_ELF))
        return true;
    each->result = unpack(entry, &plain, &owned);
    if (each->result != CUDA_SUCCESS)
        return false;
    each->visit(each->context, plain, entry->arch);
    free(owned);
    return true;
}

CUresult tsr_fatbin_each(struct tsr_span data, tsr_fatbin_wanted *wanted, tsr_fatbin_visit *visit, void *context)
{
    struct each each = {wanted, visit, context, CUDA_SUCCESS};
    return walk(data, false, visit_each, &each) ? each.result : CUDA_ERROR_INVALID_IMAGE;
}
