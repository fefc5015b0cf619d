/* The directory of copies against a model that knows each byte, and each copy's value of it. */
#include "directory_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES 96u
#define COPIES 4u
#define QUEUES 6u
#define STEPS 300000u

struct byte {
    uint32_t value[COPIES]; /* of each copy */
    uint32_t truth;         /* what the program wrote last; 0: nothing that matters */
    bool holds[COPIES];
    uint64_t writers[QUEUES]; /* last ticket of each that may have written the source */
    unsigned source;
    uint64_t arrivals[COPIES];
};

struct model {
    struct tsr_directory directory;
    struct byte bytes[BYTES];
    uint64_t pulled, waits; /* of the last use; waits: bit n: for a ticket that is n modulo 64 */
    bool exact;             /* no bound was met: the directory must not do more than is needed */
    uint32_t written;
    uint64_t tickets;               /* numbers */
    struct tsr_broadcast broadcast; /* of the last use */
    unsigned short seed[3];
};

static unsigned draw(struct model *model, unsigned below)
{
    return (unsigned)(nrand48(model->seed) % below);
}

static void on_pull(void *context, const struct tsr_pull *pull)
{
    struct model *model = context;
    CHECK(pull->first < pull->end && pull->end <= BYTES && pull->from != pull->to);
    for (uint64_t i = pull->first; i < pull->end && i < BYTES; i++) {
        model->bytes[i].value[pull->to] = model->bytes[i].value[pull->from];
        if (model->exact) /* only what is not there, from who has it */
            CHECK(!model->bytes[i].holds[pull->to] && model->bytes[i].holds[pull->from]);
    }
    model->pulled += pull->end - pull->first;
}

static void on_wait(void *context, uint64_t ticket)
{
    struct model *model = context;
    model->waits |= 1ull << ticket % 64;
}

static void ignore_pull(void *context, const struct tsr_pull *pull)
{
    ((struct model *)context)->pulled += pull->end - pull->first;
}

static struct tsr_directory_listener listener(struct model *model)
{
    return (struct tsr_directory_listener){.pull = on_pull, .wait = on_wait, .context = model};
}

static uint64_t bit_of(uint64_t ticket)
{
    return ticket ? 1ull << ticket % 64 : 0;
}

static uint64_t writers_bits(const struct byte *byte)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < QUEUES; i++)
        bits |= bit_of(byte->writers[i]);
    return bits;
}

/* As many as can be remembered have written there, and the use is none of theirs. */
static bool is_one_too_many(const struct byte *byte, const struct tsr_use *use)
{
    unsigned writers = 0;
    for (unsigned i = 0; i < QUEUES; i++)
        writers += byte->writers[i] != 0;
    return use->writes && byte->source == use->copy && writers == TSR_DIRECTORY_WRITERS &&
           !byte->writers[tsr_ticket_queue_of(use->ticket)];
}

/* The needs of a use by the book, byte for byte. */
static void expect(const struct model *model, const struct tsr_use *use, uint64_t *pulled, uint64_t *waits)
{
    *pulled = *waits = 0;
    for (uint64_t i = use->first; i < use->end; i++) {
        const struct byte *byte = &model->bytes[i];
        bool missing = !byte->holds[use->copy] && use->pulls;
        *waits |= bit_of(byte->arrivals[use->copy]);
        *pulled += missing;
        if (missing || is_one_too_many(byte, use))
            *waits |= writers_bits(byte);
    }
}

/* Everything was brought together by the use: it came after all that was. */
static bool is_together(const struct model *model, const struct tsr_use *use)
{
    const struct tsr_cell *cell = &model->directory.cells.data[0];
    return model->directory.cells.count == 1 && cell->parts[0].writers[0] == use->ticket && !cell->parts[0].writers[1] &&
           cell->arrivals[COPIES] == use->ticket;
}

static void check_came_last(const struct model *model)
{
    for (unsigned i = 0; i < BYTES; i++) {
        const struct byte *byte = &model->bytes[i];
        CHECK_EQ(writers_bits(byte) & ~model->waits, 0);
        for (unsigned copy = 0; copy < COPIES; copy++)
            CHECK(!byte->arrivals[copy] || model->waits >> byte->arrivals[copy] % 64 & 1);
    }
}

static void note_write(struct byte *byte, const struct tsr_use *use, bool alone)
{
    if (alone || byte->source != use->copy || is_one_too_many(byte, use))
        memset(byte->writers, 0, sizeof byte->writers);
    byte->writers[tsr_ticket_queue_of(use->ticket)] = use->ticket;
    byte->source = use->copy;
}

static void follow_together(struct model *model, const struct tsr_use *use)
{
    for (unsigned i = 0; i < BYTES; i++) {
        struct byte *byte = &model->bytes[i];
        note_write(byte, use, true);
        for (unsigned copy = 0; copy < COPIES; copy++) {
            byte->holds[copy] = copy == use->copy;
            byte->arrivals[copy] = use->ticket;
        }
    }
}

static void follow(struct model *model, const struct tsr_use *use)
{
    for (uint64_t i = use->first; i < use->end; i++) {
        struct byte *byte = &model->bytes[i];
        if (use->pulls && !byte->holds[use->copy])
            byte->arrivals[use->copy] = use->ticket;
        byte->holds[use->copy] = true;
        if (!use->writes)
            continue;
        note_write(byte, use, false);
        for (unsigned copy = 0; copy < COPIES; copy++) {
            bool gets = use->broadcast && use->broadcast->copies >> copy & 1;
            byte->holds[copy] = copy == use->copy || gets;
            byte->arrivals[copy] = gets ? use->broadcast->tickets[copy] : byte->arrivals[copy];
        }
    }
}

/* The launch itself: it reads right bytes, and writes all that it promised and some of what it may. */
static void run(struct model *model, const struct tsr_use *use)
{
    for (uint64_t i = use->first; i < use->end; i++) {
        struct byte *byte = &model->bytes[i];
        if (byte->truth && use->pulls)
            CHECK_EQ(byte->value[use->copy], byte->truth);
        if (use->writes && (!use->pulls || draw(model, 2)))
            byte->truth = byte->value[use->copy] = ++model->written;
        for (unsigned copy = 0; copy < COPIES && use->broadcast; copy++)
            if (use->broadcast->copies >> copy & 1)
                byte->value[copy] = byte->truth;
    }
}

/* The same for other copies, each by work of its own. */
static void draw_broadcast(struct model *model, struct tsr_use *use)
{
    model->broadcast = (struct tsr_broadcast){.copies = (uint16_t)(draw(model, 1u << COPIES) & ~(1u << use->copy))};
    for (unsigned copy = 0; copy < COPIES; copy++)
        model->broadcast.tickets[copy] = (uint64_t)draw(model, QUEUES) << TSR_TICKET_SHIFT | ++model->tickets;
    use->broadcast = &model->broadcast;
}

static struct tsr_use draw_use(struct model *model)
{
    struct tsr_use use = {.first = draw(model, BYTES), .copy = (uint8_t)draw(model, COPIES)};
    use.ticket = (uint64_t)draw(model, QUEUES) << TSR_TICKET_SHIFT | ++model->tickets;
    use.end = use.first + 1 + draw(model, draw(model, 4) ? 12 : BYTES);
    use.end = use.end < BYTES ? use.end : BYTES;
    use.writes = draw(model, 2);
    use.pulls = !use.writes || draw(model, 2);
    if (!use.pulls && draw(model, 3) == 0)
        draw_broadcast(model, &use);
    return use;
}

static void step(struct model *model)
{
    struct tsr_use use = draw_use(model);
    uint64_t pulled, waits;
    struct tsr_directory_listener asked = {.pull = ignore_pull, .wait = on_wait, .context = model};
    if (draw(model, 50) == 0) {
        tsr_directory_forget(&model->directory, use.first, use.end, (1u << COPIES) - 1);
        for (uint64_t i = use.first; i < use.end; i++) {
            model->bytes[i].truth = 0;
            for (unsigned copy = 0; copy < COPIES; copy++)
                model->bytes[i].holds[copy] = true;
        }
    }
    expect(model, &use, &pulled, &waits);
    model->pulled = model->waits = 0;
    tsr_directory_ask(&model->directory, &use, &asked);
    if (model->exact) {
        CHECK_EQ(model->pulled, pulled);
        CHECK_EQ(model->waits, waits);
    }
    model->pulled = model->waits = 0;
    struct tsr_directory_listener heard = listener(model);
    tsr_directory_apply(&model->directory, &use, &heard);
    if (model->exact)
        CHECK_EQ(model->pulled, pulled);
    CHECK_EQ(waits & ~model->waits, 0);
    run(model, &use);
    if (is_together(model, &use)) {
        check_came_last(model);
        follow_together(model, &use);
    } else {
        follow(model, &use);
    }
}

static void start(struct model *model, uint32_t most, unsigned seed)
{
    *model = (struct model){.exact = most >= BYTES + TSR_CELL_SPLITS, .seed = {(unsigned short)seed, 7, 11}};
    CHECK(tsr_directory_start(&model->directory, BYTES, (1u << COPIES) - 1));
    model->directory.most = most;
    for (unsigned i = 0; i < BYTES; i++)
        for (unsigned copy = 0; copy < COPIES; copy++)
            model->bytes[i].holds[copy] = true;
}

static void campaign(uint32_t most, unsigned seed, unsigned steps)
{
    struct model model;
    start(&model, most, seed);
    for (unsigned i = 0; i < steps && check_failures == 0; i++) {
        step(&model);
        check_whole(&model.directory);
    }
    tsr_directory_fini(&model.directory);
}

TEST(every_read_finds_what_was_written_last_and_nothing_else_is_pulled)
{
    for (unsigned seed = 0; seed < 4; seed++)
        campaign(BYTES + TSR_CELL_SPLITS, seed, check_steps(STEPS / 4));
}

TEST(with_few_cells_every_read_still_finds_what_was_written_last)
{
    for (unsigned most = 2; most < 12; most++)
        campaign(most, most, check_steps(STEPS / 20));
}

TEST(without_memory_the_extent_is_brought_together)
{
    struct model model;
    start(&model, BYTES, 1);
    model.directory.most = 1; /* as if none could be had */
    model.exact = false;
    for (unsigned i = 0; i < 1000; i++)
        step(&model);
    CHECK_EQ(model.directory.cells.count, 1);
    tsr_directory_fini(&model.directory);
}

/* ---- the survey ---- */

#define LATELY 25u /* tickets */

static bool was_lately(void *context, uint64_t ticket)
{
    const struct model *model = context;
    return (ticket & TSR_TICKET_LATEST) + LATELY > model->tickets;
}

static bool is_fresh(struct model *model, const struct byte *byte)
{
    for (unsigned queue = 0; queue < QUEUES; queue++)
        if (byte->writers[queue] && was_lately(model, byte->writers[queue]))
            return true;
    return false;
}

/* Which bytes each copy lacks of what the use reads; the survey says so by part, and in the sum. */
static void check_survey(struct model *model, const struct tsr_use *use)
{
    struct tsr_survey survey = {0};
    struct tsr_survey_of of = {.copies = (1u << COPIES) - 1, .is_fresh = was_lately, .context = model};
    uint64_t fresh[COPIES] = {0}, constant[COPIES] = {0}, all_fresh = 0, found = 0, writers = 0, told = 0;
    for (uint64_t i = use->first; i < use->end; i++) {
        struct byte *byte = &model->bytes[i];
        if (!use->pulls)
            continue;
        bool lately = is_fresh(model, byte);
        all_fresh += lately;
        for (unsigned queue = 0; queue < QUEUES; queue++)
            if (lately && byte->writers[queue] && was_lately(model, byte->writers[queue]))
                writers |= bit_of(byte->writers[queue]);
        for (unsigned copy = 0; copy < COPIES; copy++)
            *(lately ? &fresh[copy] : &constant[copy]) += !byte->holds[copy];
    }
    tsr_directory_survey(&model->directory, use, &of, &survey);
    for (uint32_t i = 0; i < survey.part_count; i++) {
        found += survey.parts[i].bytes;
        told |= bit_of(survey.parts[i].writer);
    }
    CHECK_EQ(found, all_fresh);
    for (unsigned copy = 0; copy < COPIES; copy++) {
        uint64_t lacking = 0;
        for (uint32_t i = 0; i < survey.part_count; i++)
            lacking += survey.parts[i].holders >> copy & 1 ? 0 : survey.parts[i].bytes;
        CHECK_EQ(survey.constants[copy], constant[copy]);
        CHECK(survey.part_count == TSR_PLACE_PARTS ? lacking >= fresh[copy] : lacking == fresh[copy]);
    }
    CHECK(survey.part_count == TSR_PLACE_PARTS || told == writers);
}

TEST(the_survey_says_what_each_copy_lacks)
{
    struct model model;
    start(&model, BYTES + TSR_CELL_SPLITS, 3);
    for (unsigned i = 0, last = check_steps(STEPS / 4); i < last && check_failures == 0; i++) {
        step(&model);
        struct tsr_use use = draw_use(&model);
        check_survey(&model, &use);
    }
    tsr_directory_fini(&model.directory);
}

TEST(of_many_parts_it_is_still_known_what_each_copy_lacks)
{
    struct tsr_survey survey = {0};
    uint64_t lacking = 0;
    for (uint64_t writer = 1; writer <= 4 * TSR_PLACE_PARTS; writer++)
        tsr_survey_add(&survey, writer, 100, writer % 3 ? 1 : 3);
    for (uint32_t i = 0; i < survey.part_count; i++) {
        CHECK(survey.parts[i].holders & 1);
        lacking += survey.parts[i].holders & 2 ? 0 : survey.parts[i].bytes;
    }
    CHECK_EQ(lacking, 100 * (4 * TSR_PLACE_PARTS - 4 * TSR_PLACE_PARTS / 3));
}

struct heard {
    unsigned pulls, waits;
    uint64_t tickets; /* sum of numbers */
    struct tsr_pull last;
    uint64_t ticket;
};

static void issue_pull(void *context, const struct tsr_pull *pull)
{
    struct heard *heard = context;
    heard->pulls++;
    heard->last = *pull;
}

static void note_wait(void *context, uint64_t ticket)
{
    struct heard *heard = context;
    heard->waits++;
    heard->ticket = ticket;
    heard->tickets += ticket & TSR_TICKET_LATEST;
}

static struct heard use(struct tsr_directory *directory, struct tsr_use of)
{
    struct heard heard = {0};
    struct tsr_directory_listener hears = {.pull = issue_pull, .wait = note_wait, .context = &heard};
    tsr_directory_apply(directory, &of, &hears);
    return heard;
}

TEST(a_pull_is_from_the_writer_and_comes_after_it)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1000, 3));
    use(&directory, (struct tsr_use){.first = 100, .end = 200, .ticket = 5, .copy = 1, .writes = true});
    struct heard heard = use(&directory, (struct tsr_use){.first = 0, .end = 1000, .ticket = 6, .copy = 0, .pulls = true});
    CHECK_EQ(heard.pulls, 1);
    CHECK_EQ(heard.last.first, 100);
    CHECK_EQ(heard.last.end, 200);
    CHECK_EQ(heard.last.from, 1);
    CHECK_EQ(heard.ticket, 5);
    heard = use(&directory, (struct tsr_use){.first = 0, .end = 1000, .ticket = 7, .copy = 0, .pulls = true});
    CHECK_EQ(heard.pulls, 0);
    CHECK_EQ(heard.ticket, 6); /* the bytes are on their way */
    CHECK(tsr_directory_holds(&directory, 0, 100, 0));
    CHECK(!tsr_directory_holds(&directory, 0, 101, 0));
    tsr_directory_fini(&directory);
}

TEST(what_is_overwritten_is_not_pulled_nor_are_gaps_until_they_are_read)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1000, 3));
    use(&directory, (struct tsr_use){.first = 0, .end = 1000, .ticket = 5, .copy = 1, .writes = true});
    struct heard heard = use(&directory, (struct tsr_use){.first = 0, .end = 500, .ticket = 6, .copy = 0, .writes = true});
    CHECK_EQ(heard.pulls, 0);
    heard = use(&directory,
                (struct tsr_use){.first = 500, .end = 590, .ticket = 7, .copy = 0, .writes = true, .stride = 40, .width = 10});
    CHECK_EQ(heard.pulls, 0);
    heard = use(&directory, (struct tsr_use){.first = 500, .end = 590, .ticket = 8, .copy = 0, .pulls = true});
    CHECK_EQ(heard.pulls, 1);
    CHECK_EQ(heard.last.first, 510);
    CHECK_EQ(heard.last.end, 580);
    CHECK_EQ(heard.last.stride, 40);
    CHECK_EQ(heard.last.width, 30);
    CHECK_EQ(heard.tickets, 5);
    tsr_directory_fini(&directory);
}

/* As one that begins to overwrite rows of what the other copy holds. */
TEST(who_overwrites_rows_comes_after_the_gaps_writers_only_if_they_may_be_pulled)
{
    for (int others = 0; others < 2; others++) {
        struct tsr_directory directory;
        REQUIRE(tsr_directory_start(&directory, 10 * TSR_DIRECTORY_LEAST_ROW, 3));
        use(&directory, (struct tsr_use){.end = directory.bytes, .ticket = 5, .copy = 1, .writes = true});
        struct heard heard = use(&directory, (struct tsr_use){.end = directory.bytes,
                                                              .ticket = 6,
                                                              .copy = 0,
                                                              .writes = true,
                                                              .stride = 2 * TSR_DIRECTORY_LEAST_ROW,
                                                              .width = TSR_DIRECTORY_LEAST_ROW,
                                                              .others_leave_gaps = others});
        CHECK_EQ(heard.pulls, 0);
        CHECK_EQ(heard.tickets, others ? 5 : 0);
        heard = use(&directory, (struct tsr_use){.end = directory.bytes, .ticket = 7, .copy = 0, .pulls = true});
        CHECK_EQ(heard.pulls, 1);
        CHECK_EQ(heard.tickets & 5, 5);
        tsr_directory_fini(&directory);
    }
}

TEST(reading_again_adds_no_cells)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1u << 20, 3));
    for (uint64_t i = 0; i < 1000; i++)
        use(&directory, (struct tsr_use){.first = 64 * i, .end = 64 * i + 64, .ticket = 1 + i, .copy = 0, .pulls = true});
    CHECK_EQ(directory.cells.count, 1);
    tsr_directory_fini(&directory);
}

static uint64_t ticket_of(uint64_t queue, uint64_t number)
{
    return queue << TSR_TICKET_SHIFT | number;
}

TEST(a_pull_comes_after_all_who_may_have_written_whatever_their_order)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1000, 3));
    for (uint64_t queue = 1; queue <= 3; queue++)
        use(&directory,
            (struct tsr_use){
                .first = 0, .end = 100, .ticket = ticket_of(queue, 1 << queue), .copy = 1, .pulls = true, .writes = true});
    struct tsr_use read = {.first = 0, .end = 100, .ticket = ticket_of(9, 1), .copy = 0, .pulls = true};
    struct heard heard = use(&directory, read);
    CHECK_EQ(heard.waits, 3);
    CHECK_EQ(heard.tickets, 2 + 4 + 8);
    tsr_directory_fini(&directory);
}

static uint64_t last_number(uint32_t queue)
{
    return 100 + queue;
}

TEST(who_repeats_a_use_changes_nothing_until_another_gpu_has_a_part_in_it)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1000, 3));
    struct tsr_use write = {.first = 0, .end = 100, .ticket = ticket_of(1, 1), .writes = true, .repeats = true};
    struct tsr_use other = {.first = 0, .end = 100, .ticket = ticket_of(2, 1), .writes = true};
    struct tsr_use read = {.first = 50, .end = 60, .ticket = ticket_of(3, 1), .copy = 1, .pulls = true};
    CHECK_EQ(tsr_directory_look(&directory, &write), TSR_DIRECTORY_HOLDS); /* the other copy holds them, too */
    use(&directory, write);
    CHECK_EQ(tsr_directory_look(&directory, &write), TSR_DIRECTORY_SAME);
    CHECK_EQ(tsr_directory_look(&directory, &other), TSR_DIRECTORY_WRITES);
    use(&directory, other);
    CHECK_EQ(tsr_directory_look(&directory, &write), TSR_DIRECTORY_SAME);
    CHECK_EQ(tsr_directory_look(&directory, &read), TSR_DIRECTORY_HOLDS);
    tsr_directory_freeze(&directory, last_number);
    CHECK_EQ(tsr_directory_look(&directory, &write), TSR_DIRECTORY_WRITES);
    struct heard heard = use(&directory, read);
    CHECK_EQ(heard.tickets, 101 + 1);
    CHECK_EQ(tsr_directory_look(&directory, &write), TSR_DIRECTORY_HOLDS);
    tsr_directory_fini(&directory);
}

TEST(one_writer_more_than_can_be_remembered_comes_after_the_others)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1000, 1));
    struct tsr_use write = {.first = 0, .end = 1000, .writes = true};
    for (uint64_t queue = 0; queue < TSR_DIRECTORY_WRITERS; queue++) {
        write.ticket = ticket_of(queue, 1);
        CHECK_EQ(use(&directory, write).waits, 0);
    }
    write.ticket = ticket_of(TSR_DIRECTORY_WRITERS, 1);
    CHECK_EQ(tsr_directory_look(&directory, &write), TSR_DIRECTORY_HOLDS);
    CHECK_EQ(use(&directory, write).waits, TSR_DIRECTORY_WRITERS);
    CHECK_EQ(use(&directory, write).waits, 0);
    tsr_directory_fini(&directory);
}

TEST(nobody_comes_after_what_is_complete)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1000, 3));
    use(&directory, (struct tsr_use){.first = 0, .end = 100, .ticket = 1, .copy = 1, .writes = true});
    use(&directory, (struct tsr_use){.first = 0, .end = 200, .ticket = 2, .copy = 0, .pulls = true});
    tsr_directory_settle(&directory);
    struct heard heard = use(&directory, (struct tsr_use){.first = 0, .end = 300, .ticket = 3, .copy = 0, .pulls = true});
    CHECK_EQ(heard.waits + heard.pulls, 0);
    tsr_directory_fini(&directory);
}

TEST(a_copy_that_keeps_no_only_ones_can_be_lost)
{
    struct tsr_directory directory;
    REQUIRE(tsr_directory_start(&directory, 1000, 1));
    CHECK_EQ(tsr_directory_keeps(&directory, 1), TSR_DIRECTORY_KEEPS_NOTHING);
    use(&directory, (struct tsr_use){.first = 0, .end = 100, .ticket = 1, .copy = 1, .writes = true});
    CHECK_EQ(tsr_directory_keeps(&directory, 1), TSR_DIRECTORY_KEEPS_EXCLUSIVE);
    use(&directory, (struct tsr_use){.first = 0, .end = 1000, .ticket = 2, .copy = 0, .pulls = true});
    CHECK_EQ(tsr_directory_keeps(&directory, 1), TSR_DIRECTORY_KEEPS_SHARED);
    tsr_directory_lose(&directory, 1);
    CHECK_EQ(tsr_directory_keeps(&directory, 1), TSR_DIRECTORY_KEEPS_NOTHING);
    struct heard heard = use(&directory, (struct tsr_use){.first = 0, .end = 100, .ticket = 3, .copy = 1, .pulls = true});
    CHECK_EQ(heard.pulls, 1);
    CHECK_EQ(heard.last.from, 0);
    tsr_directory_fini(&directory);
}
