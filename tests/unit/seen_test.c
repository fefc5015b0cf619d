/* Reading /proc/self/maps, and who counts as having come past the shim. */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/seen.c"

#include "check.h"

static uintptr_t self_start, real_start;

uintptr_t tsr_loader_self_start(void)
{
    return self_start;
}

uintptr_t tsr_real_start(void)
{
    return real_start;
}

static int file_with(const char *text, size_t bytes)
{
    int file = memfd_create("lines", MFD_CLOEXEC);
    if (write(file, text, bytes) != (ssize_t)bytes || lseek(file, 0, SEEK_SET) != 0)
        return -1;
    return file;
}

TEST(lines_come_whole_wherever_the_reads_end)
{
    static char text[300000];
    size_t used = 0;
    unsigned count = 0, found = 0;
    for (size_t length = 0; used + length + 1 < sizeof text; length = (length * 7 + 3) % 4200, count++) {
        memset(text + used, 'a' + (int)(length % 26), length);
        used += length;
        text[used++] = '\n';
    }
    struct lines lines = {.file = file_with(text, used)};
    size_t length = 0;
    for (char *line; (line = next_line(&lines)); length = (length * 7 + 3) % 4200, found++) {
        CHECK_EQ(strlen(line), length);
        CHECK(length == 0 || line[length - 1] == 'a' + (int)(length % 26));
    }
    CHECK_EQ(found, count);
    close(lines.file);
}

TEST(a_line_without_end_is_none)
{
    static char text[20000];
    memset(text, 'x', sizeof text);
    struct lines lines = {.file = file_with(text, sizeof text)};
    CHECK(!next_line(&lines));
    close(lines.file);
    lines = (struct lines){.file = file_with("one\ntwo", 7)};
    char *line = next_line(&lines);
    CHECK(line && strcmp(line, "one") == 0);
    CHECK(!next_line(&lines));
    close(lines.file);
}

TEST(only_the_first_page_of_a_driver_counts)
{
    static const struct {
        const char *line, *path;
    } cases[] = {
        {"7f00aa000000-7f00aa001000 r--p 00000000 fe:01 12   /usr/lib/libcuda.so.580.1", "/usr/lib/libcuda.so.580.1"},
        {"7f00aa000000-7f00aa001000 r--p 00000000 fe:01 12   /a b/libcuda.so.1 (deleted)", "/a b/libcuda.so.1 (deleted)"},
        {"7f00aa000000-7f00aa001000 r-xp 00001000 fe:01 12   /usr/lib/libcuda.so.580.1", NULL},
        {"7f00aa000000-7f00aa001000 r--p 00000000 fe:01 12   /usr/lib/libcudart.so.13", NULL},
        {"7f00aa000000-7f00aa001000 r--p 00000000 fe:01 12   /libcuda.so.1/other", NULL},
        {"7f00aa000000-7f00aa001000 r--p 00000000 fe:01 12   /usr/local/cuda/lib64/stubs/libcuda.so", NULL},
        {"7f00aa000000-7f00aa001000 rw-p 00000000 00:00 0    [heap]", NULL},
        {"7f00aa000000-7f00aa001000 rw-p 00000000 00:00 0 ", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uintptr_t start;
        const char *path = driver_beginning_in(cases[i].line, &start);
        CHECK(cases[i].path ? path && strcmp(path, cases[i].path) == 0 : !path);
        CHECK(!cases[i].path || start == 0x7f00aa000000);
    }
}

TEST(a_driver_in_this_process)
{
    char directory[] = "/tmp/tessera-seen-XXXXXX", path[PATH_MAX], found[PATH_MAX] = "";
    CHECK(!tsr_seen_nothing(found, sizeof found));
    REQUIRE(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/libcuda.so.1", directory);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(file >= 0 && ftruncate(file, 4096) == 0);
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(tsr_seen_nothing(found, sizeof found) && strcmp(found, path) == 0);
    CHECK(tsr_seen_nothing(found, 5) && strcmp(found, "/tmp") == 0);
    real_start = (uintptr_t)mapped; /* opened by us */
    CHECK(!tsr_seen_nothing(found, sizeof found));
    real_start = 0, self_start = (uintptr_t)mapped; /* us */
    CHECK(!tsr_seen_nothing(found, sizeof found));
    self_start = 0;
    tsr_seen_start();
    CHECK(!tsr_seen_nothing(found, sizeof found));
    munmap(mapped, 4096);
    close(file);
    CHECK(unlink(path) == 0 && rmdir(directory) == 0);
}
