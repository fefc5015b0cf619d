/* record/code: images in this very program's file are handed over as that file, others as copies, and files as themselves. */
#include "record/code.c"

#include "check.h"

#include <stdio.h>

static const char in_a_file[4096] = "an image that the linker puts where nothing is written";
static struct tsr_records_message sent;
static char received[8192];
static bool listening = true;

bool tsr_writer_hand_over(struct tsr_records_message message, int descriptor)
{
    if (!listening)
        return false;
    sent = message;
    return pread(descriptor, received, message.bytes, (off_t)message.offset) == (ssize_t)message.bytes;
}

static void hand_over(const void *data, size_t bytes, const char *path)
{
    struct tsr_code code;
    sent = (struct tsr_records_message){0};
    memset(received, 0, sizeof received);
    tsr_code_find(&code, data, bytes, path);
    tsr_code_hand_over(&code, 7, 9);
    tsr_code_done(&code);
}

static bool arrived(const void *data, size_t bytes)
{
    return sent.number == 7 && sent.linked_into == 9 && sent.bytes == bytes && sent.hash == tsr_hash(data, bytes) &&
           memcmp(received, data, bytes) == 0;
}

TEST(code_of_an_unknown_form_is_not_handed_over)
{
    setenv("TESSERA_CODE", "1", 1); /* options are read once: for all tests */
    struct tsr_code unknown = {.file = -1};
    tsr_code_hand_over(&unknown, 1, 0);
    CHECK_EQ(sent.number, 0);
}

TEST(an_image_in_a_file_is_not_copied)
{
    struct tsr_code code;
    tsr_code_find(&code, in_a_file, sizeof in_a_file, "");
    CHECK(code.file >= 0);
    CHECK(strstr(code.path, "code_test") != NULL);
    tsr_code_done(&code);
    hand_over(in_a_file, sizeof in_a_file, "");
    CHECK(arrived(in_a_file, sizeof in_a_file));
    CHECK_EQ(copied_bytes, 0);
}

TEST(an_image_in_memory_is_copied_within_the_budget)
{
    static char in_memory[5000] = "an image that was made at run time";
    hand_over(in_memory, sizeof in_memory, "");
    CHECK(arrived(in_memory, sizeof in_memory));
    CHECK_EQ(sent.offset, 0);
    copied_bytes = BUDGET_BYTES;
    hand_over(in_memory, sizeof in_memory, "");
    CHECK_EQ(sent.number, 0);
    copied_bytes = 0;
}

TEST(an_image_in_memory_is_named_after_the_code_that_loads_it)
{
    static char in_memory[] = "an image that was made at run time";
    struct tsr_code code;
    tsr_code_find(&code, in_memory, sizeof in_memory, "");
    CHECK_STR(code.path, "");
    tsr_code_name_loader(&code, (const void *)hand_over);
    CHECK(strstr(code.path, "code_test") != NULL);
    CHECK_EQ(code.file, -1);
    CHECK_EQ(code.offset, 0);
    tsr_code_done(&code);
    tsr_code_find(&code, in_memory, sizeof in_memory, "");
    tsr_code_name_loader(&code, in_memory);
    CHECK_STR(code.path, "");
    tsr_code_done(&code);
}

TEST(a_file_that_the_application_names_is_read)
{
    char path[] = "/tmp/code_test_XXXXXX";
    int file = mkstemp(path);
    CHECK(write(file, "module", 6) == 6);
    close(file);
    hand_over(NULL, 0, path);
    CHECK(arrived("module", 6));
    unlink(path);
    errno = 5;
    hand_over(NULL, 0, path);
    CHECK_EQ(errno, 5);
    CHECK_EQ(sent.number, 0);
    struct tsr_code code;
    tsr_code_find(&code, NULL, 0, path);
    CHECK_STR(code.path, path);
    tsr_code_done(&code);
}

TEST(descriptors_are_closed_even_when_nobody_listens)
{
    int before = dup(0);
    close(before);
    listening = false;
    hand_over(in_a_file, sizeof in_a_file, "");
    hand_over("in memory", 9, "");
    int after = dup(0);
    close(after);
    CHECK_EQ(after, before);
}
