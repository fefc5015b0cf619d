/* object/templates, object/shapes: a table that is written beside the reader, and tables that are wrong; what shims write into it. */
#include "object/shapes.c"
#include "object/templates.c"

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/os.h"

struct tsr_real tsr_real;

static int major_of_second = 9;
static struct tsr_templates *written;
static struct tsr_templates_slot *slots;
static uint64_t next = TSR_TEMPLATES_SLOTS_OFFSET + TSR_TEMPLATES_SLOTS * sizeof(struct tsr_templates_slot);

static CUresult count(int *number)
{
    *number = 2;
    return CUDA_SUCCESS;
}

static CUresult get(CUdevice *device, int number)
{
    *device = number;
    return CUDA_SUCCESS;
}

static CUresult attribute(int *value, CUdevice_attribute asked, CUdevice device)
{
    *value = asked != CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 0 : device == 1 ? major_of_second : 9;
    return CUDA_SUCCESS;
}

static void publish(uint64_t code, const char *name, uint32_t sm, const char *text, uint64_t offset)
{
    uint64_t function = tsr_hash(name, strlen(name));
    uint32_t place = tsr_templates_place(code, function, sm);
    while (slots[place % TSR_TEMPLATES_SLOTS].offset)
        place++;
    struct tsr_templates_slot *slot = &slots[place % TSR_TEMPLATES_SLOTS];
    *slot =
        (struct tsr_templates_slot){.code = code, .function = function, .architecture = sm, .bytes = (uint32_t)strlen(text)};
    if (!offset) {
        memcpy((char *)written + next, text, strlen(text));
        offset = next;
        next += (strlen(text) + 8) / 8 * 8;
    }
    __atomic_store_n(&slot->offset, offset, __ATOMIC_RELEASE);
    __atomic_fetch_add(&written->published, 1, __ATOMIC_RELEASE);
}

static struct tsr_template_link link_to(uint64_t code, const char *name)
{
    return (struct tsr_template_link){.code = code, .function = tsr_hash(name, strlen(name))};
}

TEST(without_a_table_nothing_is_known)
{
    static char path[64];
    tsr_real.cuDeviceGetCount = count;
    tsr_real.cuDeviceGet = get;
    tsr_real.cuDeviceGetAttribute = attribute;
    int file = tsr_os_memfd("templates", TSR_TEMPLATES_BYTES);
    REQUIRE(file >= 0);
    written = mmap(NULL, TSR_TEMPLATES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    slots = (void *)((char *)written + TSR_TEMPLATES_SLOTS_OFFSET);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    setenv("TESSERA_TEMPLATES", path, 1);
    struct tsr_template_link link = link_to(5, "kernel");
    CHECK(!tsr_template_find(&link, 0));
    CHECK(!map_table(path)); /* of another release */
    *written = (struct tsr_templates){.magic = TSR_TEMPLATES_MAGIC, .version = TSR_TEMPLATES_VERSION, .bytes = sizeof *written};
    tsr_templates_start();
    CHECK(!tsr_template_find(&link, 0));
}

TEST(what_is_published_is_found)
{
    struct tsr_template_link link = link_to(5, "kernel"), other = link_to(6, "kernel"), none = link_to(0, "kernel");
    CHECK(!tsr_template_find(&link, 0));
    publish(5, "kernel", 80, "of another architecture", 0);
    CHECK(!tsr_template_find(&link, 0));
    CHECK_EQ(link.places[0].seen, 1);
    publish(5, "kernel", 90, "template", 0);
    REQUIRE(tsr_template_find(&link, 0));
    CHECK(memcmp(tsr_template_find(&link, 0), "template", 8) == 0);
    CHECK_EQ(link.places[0].bytes, 8);
    CHECK(!tsr_template_find(&other, 0));
    CHECK(!tsr_template_find(&none, 0));
}

TEST(thousands_are_told_apart)
{
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "kernel %d", i);
        publish(7, name, 90, name, 0);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "kernel %d", i);
        struct tsr_template_link link = link_to(7, name);
        const char *found = tsr_template_find(&link, 0);
        REQUIRE(found);
        CHECK(memcmp(found, name, strlen(name)) == 0);
    }
}

TEST(slots_that_are_wrong_lead_nowhere)
{
    struct tsr_template_link unknown = link_to(8, "analysed"), beyond = link_to(8, "beyond"), crooked = link_to(8, "crooked");
    publish(8, "analysed", 90, "", 0);
    publish(8, "beyond", 90, "text", TSR_TEMPLATES_BYTES - 2);
    publish(8, "crooked", 90, "text", 65);
    CHECK(!tsr_template_find(&unknown, 0));
    CHECK(!tsr_template_find(&beyond, 0));
    CHECK(!tsr_template_find(&crooked, 0));
}

TEST(a_clone_is_a_text_of_its_own)
{
    struct tsr_template_link link = link_to(9, "kernel");
    uint32_t bytes;
    CHECK(!tsr_template_clone(&link, 0, &bytes));
    publish(9, "text", 90, "copy", 0);
    publish(9, "kernel", 90, "template", 0);
    REQUIRE(tsr_template_find(&link, 0));
    CHECK(!tsr_template_clone(&link, 0, &bytes));
    uint32_t place = tsr_templates_place(9, link.function, 90);
    while (slots[place % TSR_TEMPLATES_SLOTS].code != 9 || slots[place % TSR_TEMPLATES_SLOTS].function != link.function)
        place++;
    struct tsr_templates_slot *slot = &slots[place % TSR_TEMPLATES_SLOTS];
    slot->clone = next - 8 - (strlen("template") + 8) / 8 * 8;
    slot->clone_bytes = 5;
    REQUIRE(tsr_template_clone(&link, 0, &bytes));
    CHECK_EQ(bytes, 5);
    CHECK(strcmp(tsr_template_clone(&link, 0, &bytes), "copy") == 0);
    slot->clone_bytes = 4; /* without its end */
    CHECK(!tsr_template_clone(&link, 0, &bytes));
    slot->clone_bytes = 5;
    slot->clone = TSR_TEMPLATES_BYTES;
    CHECK(!tsr_template_clone(&link, 0, &bytes));
}

TEST(what_is_distrusted_is_unknown_whatever_leads_to_it)
{
    struct tsr_template_link before = link_to(7, "kernel 1"), after = before, other = link_to(7, "kernel 2");
    const void *template = tsr_template_find(&before, 0);
    REQUIRE(template);
    tsr_template_distrust(NULL);
    CHECK_EQ(tsr_templates_distrusted, 0);
    tsr_template_distrust(template);
    tsr_template_distrust(template);
    CHECK_EQ(tsr_templates_distrusted, 1);
    CHECK(!tsr_template_find(&before, 0));
    CHECK(!tsr_template_find(&after, 0));
    CHECK(tsr_template_find(&other, 0));
    for (uintptr_t i = 1; i <= MOST_DISTRUSTED; i++)
        tsr_template_distrust((const char *)template + i);
    CHECK_EQ(tsr_templates_distrusted, MOST_DISTRUSTED);
    CHECK(!tsr_template_find(&other, 0));
}

TEST(gpus_of_different_architectures_have_each_their_own)
{
    struct tsr_template_link link = link_to(10, "kernel");
    major_of_second = 8;
    memset(architectures, 0, sizeof architectures);
    find_kinds();
    tsr_templates_distrusted = 0;
    publish(10, "kernel", 90, "of the first", 0);
    CHECK(!tsr_template_find(&link, 1));
    REQUIRE(tsr_template_find(&link, 0));
    publish(10, "kernel", 80, "of the second", 0);
    REQUIRE(tsr_template_find(&link, 1));
    CHECK(memcmp(tsr_template_find(&link, 0), "of the first", 12) == 0);
    CHECK(memcmp(tsr_template_find(&link, 1), "of the second", 13) == 0);
    CHECK(!tsr_template_find(&link, TSR_TEMPLATE_GPUS)); /* there is none of that number */
}

static uint32_t visited;
static uint32_t grids[8];
static char seen[8][8];

static bool look(const struct tsr_shape *shape, const void *parameters, void *argument)
{
    grids[visited % 8] = shape->grid[0];
    memcpy(seen[visited % 8], parameters, shape->parameter_bytes < 8 ? shape->parameter_bytes : 8);
    return ++visited != *(uint32_t *)argument;
}

static uint32_t shapes_of(const struct tsr_template_link *link, uint32_t most)
{
    visited = 0;
    tsr_shapes_each(link, look, &most);
    return visited;
}

TEST(launches_are_kept_by_their_functions)
{
    struct tsr_template_link one = link_to(11, "one"), two = link_to(11, "two"), unknown = link_to(0, "one");
    for (uint32_t i = 0; i < 3; i++) {
        struct tsr_shape like = {.grid = {10 + i, 1, 1}, .block = {32, 1, 1}, .parameter_bytes = 5};
        tsr_shapes_note(&one, &like, "block", TSR_SHAPES_BEFORE_TEMPLATE);
        tsr_shapes_note(&unknown, &like, "block", TSR_SHAPES_OF_FUNCTION);
    }
    struct tsr_shape like = {.grid = {20, 1, 1}, .block = {32, 1, 1}, .parameter_bytes = 4};
    tsr_shapes_note(&two, &like, "text", TSR_SHAPES_OF_FUNCTION);
    CHECK_EQ(shapes_of(&one, 8), 2); /* no more were wanted */
    CHECK_EQ(grids[0], 10);
    CHECK_EQ(grids[1], 11);
    CHECK(memcmp(seen[1], "block", 5) == 0);
    CHECK_EQ(shapes_of(&one, 1), 1); /* no more were asked for */
    CHECK_EQ(shapes_of(&two, 8), 1);
    CHECK_EQ(grids[0], 20);
    CHECK_EQ(shapes_of(&unknown, 8), 0);
}

TEST(launches_that_are_damaged_end_them)
{
    struct tsr_template_link link = link_to(12, "kernel");
    struct tsr_shape like = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .parameter_bytes = 8};
    uint64_t at = shapes->used;
    tsr_shapes_note(&link, &like, "8 bytes", TSR_SHAPES_OF_FUNCTION);
    struct tsr_shape *entry = (struct tsr_shape *)((char *)(shapes + 1) + at);
    CHECK_EQ(shapes_of(&link, 8), 1);
    static const uint32_t wrong[] = {0, 8, sizeof like + 4, TSR_SHAPES_BYTES, UINT32_MAX - 7};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        entry->bytes = wrong[i];
        CHECK_EQ(shapes_of(&link, 8), 0);
    }
    entry->bytes = sizeof like + 8;
    entry->parameter_bytes = 9;
    CHECK_EQ(shapes_of(&link, 8), 0);
    entry->parameter_bytes = 8;
    shapes->used = UINT64_MAX;
    CHECK_EQ(shapes_of(&link, 8), 1);
    tsr_shapes_note(&link, &like, "8 bytes", TSR_SHAPES_OF_FUNCTION);
    CHECK_EQ(shapes->used, UINT64_MAX); /* there is no room */
}
