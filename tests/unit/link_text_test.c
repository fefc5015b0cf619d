/* Several PTX texts as one: headers, declarations that others resolve, private names that clash, bounds on registers. */
#include "emulator/entry/link_text.h"

#include <stdlib.h>

#include "check.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

static int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        found++;
    return found;
}

TEST(one_text_stays_as_it_is)
{
    const char *texts[] = {HEAD ".visible .entry e() { ret; }\n"};
    char *linked = tsr_link_text(texts, 1);
    CHECK_STR(linked, texts[0]);
    free(linked);
}

TEST(the_newest_header_is_kept_once)
{
    const char *texts[] = {HEAD ".visible .entry a() { ret; }\n",
                           ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry b() { ret; }\n"};
    char *linked = tsr_link_text(texts, 2);
    CHECK_EQ(count(linked, ".version"), 1);
    CHECK_EQ(count(linked, ".version 8.4"), 1);
    CHECK_EQ(count(linked, ".target sm_90"), 1);
    CHECK_EQ(count(linked, ".entry"), 2);
    free(linked);
}

TEST(declarations_meet_their_definitions)
{
    const char *texts[] = {
        HEAD ".extern .global .align 4 .u32 shared_word;\n.extern .func (.param .b32 r) f(.param .b32 x);\n"
             ".extern .func g();\n.visible .entry e() { ret; }\n",
        HEAD ".visible .global .align 4 .u32 shared_word = 5;\n.visible .func (.param .b32 r) f(.param .b32 x) { ret; }\n"};
    char *linked = tsr_link_text(texts, 2);
    CHECK_EQ(count(linked, "shared_word"), 1);
    CHECK(strstr(linked, "shared_word = 5") != NULL);
    CHECK(strstr(linked, "shared_word") < strstr(linked, ".entry e"));
    CHECK_EQ(count(linked, ".extern"), 1); /* nobody defines g */
    CHECK(strstr(linked, ".func (.param .b32 r) f(.param .b32 x);") != NULL);
    CHECK(strstr(linked, ".func (.param .b32 r) f(.param .b32 x) {") != NULL);
    free(linked);
}

TEST(private_names_do_not_clash)
{
    const char *texts[] = {
        HEAD ".global .align 1 .b8 text[2] = {65, 0};\n.visible .entry a() { .reg .b64 %d; mov.u64 %d, text; ret; }\n",
        HEAD ".global .align 1 .b8 text[2] = {66, 0};\n.visible .entry b() { .reg .b64 %d; mov.u64 %d, text; ret; }\n"};
    char *linked = tsr_link_text(texts, 2);
    CHECK(strstr(linked, "text$link0[2] = {65, 0};") != NULL);
    CHECK(strstr(linked, "text$link1[2] = {66, 0};") != NULL);
    CHECK_EQ(count(linked, "%d, text$link0;"), 1);
    CHECK_EQ(count(linked, "%d, text$link1;"), 1);
    free(linked);
}

TEST(comments_and_strings_end_nothing)
{
    const char *texts[] = {HEAD "/* } ; */ .visible .entry a() { // }\n ret; }\n.file 1 \"a;b}\"\n",
                           HEAD ".visible .entry b() { ret; }\n.section .debug_str { .b8 1 }\n"};
    char *linked = tsr_link_text(texts, 2);
    CHECK_EQ(count(linked, ".entry"), 2);
    CHECK(strstr(linked, ".section") != NULL);
    free(linked);
}

TEST(unfinished_texts_end_somewhere)
{
    const char *parts[] = {"",   ".",      "{", "(", "\"", "/*", ".func", ".visible .func (", ".extern", ".global .align",
                           "};", "\n.file"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *texts[] = {parts[i], HEAD ".visible .func f() { ret; }\n", parts[i]};
        char *linked = tsr_link_text(texts, 3), *bounded = tsr_link_bound_registers(parts[i], 20);
        CHECK(linked && strstr(linked, ".func f"));
        CHECK_STR(bounded, parts[i]);
        free(linked);
        free(bounded);
    }
}

TEST(registers_are_bounded_where_nothing_else_says_so)
{
    char *bounded = tsr_link_bound_registers(HEAD ".visible .entry a(.param .u64 p)\n{ ret; }\n.func f() { ret; }\n"
                                                  ".visible .entry b() .maxnreg 16 { ret; }\n",
                                             38);
    CHECK_EQ(count(bounded, ".maxnreg"), 2);
    CHECK(strstr(bounded, ".entry a(.param .u64 p)\n\n.maxnreg 38\n{ ret; }") != NULL);
    CHECK(strstr(bounded, ".func f() { ret; }") != NULL);
    free(bounded);
}
