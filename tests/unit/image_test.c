/* Images: every form that nvcc makes gives its PTX; damaged ones are refused. */
#include <cuda.h>
#include <stdlib.h>

#include "check.h"
#include "image/parts.h"

struct file {
    uint8_t *data;
    size_t size;
};

static struct file read_file(const char *name)
{
    char path[512];
    struct file file = {NULL, 0};
    snprintf(path, sizeof path, "%s/corpus/image/%s", TSR_TEST_DATA, name);
    FILE *stream = fopen(path, "rb");
    if (!CHECK(stream != NULL))
        return file;
    fseek(stream, 0, SEEK_END);
    file.size = (size_t)ftell(stream);
    rewind(stream);
    file.data = malloc(file.size);
    CHECK_EQ(fread(file.data, 1, file.size, stream), file.size);
    fclose(stream);
    return file;
}

static void expect_ptx(const void *image, size_t size, uint32_t device, uint32_t arch)
{
    struct tsr_image out = {0};
    const char *reason;
    if (!CHECK_EQ(tsr_image_resolve(image, size, device, &out, &reason), CUDA_SUCCESS)) {
        CHECK_STR(reason, "");
        return;
    }
    CHECK_EQ(out.arch, arch);
    CHECK_EQ(out.text[out.length], 0);
    CHECK_EQ(strlen(out.text), out.length);
    CHECK(strstr(out.text, ".visible .entry scale(") != NULL);
    CHECK(strstr(out.text, "\nret;") || strstr(out.text, "\n\tret;"));
    tsr_image_fini(&out);
}

static void expect_refusal(const void *image, size_t size, uint32_t device, CUresult wanted, const char *part)
{
    struct tsr_image out = {0};
    const char *reason;
    CHECK_EQ(tsr_image_resolve(image, size, device, &out, &reason), wanted);
    if (!strstr(reason, part))
        CHECK_STR(reason, part);
}

TEST(fat_binaries_plain_and_compressed)
{
    static const char *const names[] = {"plain.fatbin", "lz4.fatbin", "zstd.fatbin"};
    for (unsigned i = 0; i < 3; i++) {
        struct file file = read_file(names[i]);
        expect_ptx(file.data, file.size, 80, 80);
        expect_ptx(file.data, file.size, 120, 80);
        expect_ptx(file.data, 0, 90, 80);
        expect_refusal(file.data, file.size, 75, CUDA_ERROR_NO_BINARY_FOR_GPU,
                       "PTX for sm_80 and machine code for sm_80, sm_90");
        free(file.data);
    }
}

TEST(the_wrapper_of_both_versions)
{
    struct file file = read_file("zstd.fatbin");
    struct {
        uint32_t magic, version;
        const void *data;
        const void *unused;
    } wrapper = {0x466243b1, 1, file.data, NULL};
    expect_ptx(&wrapper, 0, 80, 80);
    wrapper.version = 2;
    expect_ptx(&wrapper, sizeof wrapper, 80, 80);
    wrapper.data = NULL;
    expect_refusal(&wrapper, 0, 80, CUDA_ERROR_INVALID_IMAGE, "points to no fat binary");
    free(file.data);
}

TEST(architecture_specific_entries_match_only_their_own)
{
    struct file file = read_file("specific.fatbin");
    expect_ptx(file.data, file.size, 90, 90);
    expect_ptx(file.data, file.size, 120, 90);
    for (size_t at = 16; at + 64 <= file.size; at += tsr_read32(file.data + at + 4) + tsr_read64(file.data + at + 8))
        if (tsr_read16(file.data + at) == 1 && !(tsr_read64(file.data + at + 40) & 0x100000))
            file.data[at] = 9; /* without the general entry only 90a is left */
    expect_ptx(file.data, file.size, 90, 90);
    expect_refusal(file.data, file.size, 100, CUDA_ERROR_NO_BINARY_FOR_GPU, "no PTX for sm_100");
    free(file.data);
}

TEST(concatenated_containers)
{
    struct file plain = read_file("plain.fatbin"), specific = read_file("specific.fatbin");
    uint8_t *both = malloc(plain.size + specific.size);
    memcpy(both, plain.data, plain.size);
    memcpy(both + plain.size, specific.data, specific.size);
    expect_ptx(both, plain.size + specific.size, 90, 90);
    expect_ptx(both, plain.size + specific.size, 89, 80);
    expect_ptx(both, 0, 90, 80);
    free(both);
    free(plain.data);
    free(specific.data);
}

TEST(cubins_with_and_without_ptx)
{
    struct file with = read_file("lineinfo.cubin"), without = read_file("plain.cubin");
    expect_ptx(with.data, with.size, 80, 0);
    expect_ptx(with.data, 0, 80, 0);
    expect_refusal(without.data, without.size, 80, CUDA_ERROR_NO_BINARY_FOR_GPU, "only machine code for sm_80");
    free(with.data);
    free(without.data);
}

TEST(plain_text)
{
    static const char text[] = "// c\n.version 8.0\n.visible .entry scale(\n)\n{\n\tret;\n}";
    expect_ptx(text, 0, 80, 0);
    expect_ptx(text, sizeof text, 80, 0);
    expect_ptx(text, sizeof text - 1, 80, 0);
    expect_refusal("hello", 0, 80, CUDA_ERROR_INVALID_IMAGE, "neither");
    expect_refusal(".x", 0, 80, CUDA_ERROR_INVALID_IMAGE, "too small");
    expect_refusal("BC\xc0\xde____", 8, 80, CUDA_ERROR_INVALID_IMAGE, "neither");
}

/* Found by the fuzzer: exactly the header, which was taken for a file of unknown size. */
TEST(a_cubin_that_is_only_its_header)
{
    struct file file = read_file("header_only.cubin");
    CHECK_EQ(file.size, 64);
    expect_refusal(file.data, file.size, 80, CUDA_ERROR_INVALID_IMAGE, "damaged");
    free(file.data);
}

/* Cut off anywhere, in a buffer of exactly that size: never read outside (the sanitizer build sees it), never accepted as another text. In a cubin
   only what the PTX needs has to be there. */
TEST(truncated_images)
{
    static const char *const names[] = {"plain.fatbin", "lz4.fatbin", "zstd.fatbin", "lineinfo.cubin"};
    for (unsigned i = 0; i < 4; i++) {
        struct file file = read_file(names[i]);
        for (size_t size = 4; size < file.size; size += 13) {
            uint8_t *cut = malloc(size);
            struct tsr_image out = {0};
            const char *reason;
            memcpy(cut, file.data, size);
            CUresult result = tsr_image_resolve(cut, size, 80, &out, &reason);
            if (result == CUDA_SUCCESS) {
                CHECK(i == 3 && strstr(out.text, "\nret;"));
                tsr_image_fini(&out);
            } else {
                CHECK(result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU);
                CHECK(*reason != 0);
            }
            free(cut);
        }
        free(file.data);
    }
}

TEST(lz4_blocks)
{
    uint8_t out[32];
    static const uint8_t overlap[] = {0x1f, 'a', 1, 0, 0, 0x50, 'b', 'c', 'd', 'e', 'f'};
    CHECK(tsr_lz4_decode((struct tsr_span){overlap, sizeof overlap}, out, 25));
    CHECK(memcmp(out, "aaaaaaaaaaaaaaaaaaaabcdef", 25) == 0);
    CHECK(!tsr_lz4_decode((struct tsr_span){overlap, sizeof overlap}, out, 24));
    CHECK(!tsr_lz4_decode((struct tsr_span){overlap, sizeof overlap}, out, 26));
    static const uint8_t far[] = {0x10, 'a', 2, 0, 0x00};
    CHECK(!tsr_lz4_decode((struct tsr_span){far, sizeof far}, out, 5));
    static const uint8_t zero[] = {0x10, 'a', 0, 0, 0x00};
    CHECK(!tsr_lz4_decode((struct tsr_span){zero, sizeof zero}, out, 5));
    for (size_t size = 0; size < sizeof overlap; size++)
        CHECK(!tsr_lz4_decode((struct tsr_span){overlap, size}, out, 25));
}
