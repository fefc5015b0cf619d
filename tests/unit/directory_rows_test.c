/*
 * The directory of copies with launches that overwrite rows, against a model that knows each byte, each copy's value of it, and which work
 * comes after which: who reads finds what was written last, and nobody overtakes whom he must not.
 */
#include "directory_fixture.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 96u
#define COPIES 4u
#define QUEUES 6u
#define STEPS 60000u
#define MOST_USES 3u /* of one launch */

struct byte {
    uint32_t value[COPIES];
    uint32_t truth;                 /* what the program wrote last; 0: nothing that matters */
    uint64_t writers[QUEUES];       /* numbers of the last ones of each, on the copy that was written last */
    uint64_t arrivals[COPIES];      /* ticket of the last pull into each */
    uint64_t taken[COPIES][COPIES]; /* from, to: ticket of the last pull */
    unsigned source;
};

struct model {
    struct tsr_directory directory;
    struct byte bytes[BYTES];
    uint64_t (*clocks)[QUEUES]; /* by number of a ticket: the last number of each queue that it comes after */
    uint64_t clock[QUEUES];     /* of the launch that is made */
    uint64_t ticket, numbers, pulled;
    uint32_t written;
    uint8_t copy; /* of the last launch */
    unsigned short seed[3];
};

static unsigned draw(struct model *model, unsigned below)
{
    return (unsigned)(nrand48(model->seed) % below);
}

static uint64_t number_of(uint64_t ticket)
{
    return ticket & TSR_TICKET_LATEST;
}

static void come_after(struct model *model, uint64_t ticket)
{
    for (unsigned queue = 0; queue < QUEUES; queue++)
        if (model->clocks[number_of(ticket)][queue] > model->clock[queue])
            model->clock[queue] = model->clocks[number_of(ticket)][queue];
}

static bool comes_after(const struct model *model, uint64_t ticket)
{
    return !ticket || ticket == model->ticket || model->clock[tsr_ticket_queue_of(ticket)] >= number_of(ticket);
}

static void on_wait(void *context, uint64_t ticket)
{
    come_after(context, ticket);
}

static void ignore_wait(void *context, uint64_t ticket)
{
    (void)context;
    (void)ticket;
}

static void count_pull(void *context, const struct tsr_pull *pull)
{
    ((struct model *)context)->pulled += tsr_pull_bytes(pull);
}

/* Nobody still takes the byte from the copy. */
static void check_is_not_taken(const struct model *model, const struct byte *byte, uint8_t copy)
{
    for (unsigned to = 0; to < COPIES; to++)
        CHECK(comes_after(model, byte->taken[copy][to]));
}

static void pull_byte(struct model *model, struct byte *byte, const struct tsr_pull *pull)
{
    for (unsigned queue = 0; queue < QUEUES && byte->source == pull->from; queue++)
        CHECK(byte->writers[queue] == number_of(model->ticket) || model->clock[queue] >= byte->writers[queue]);
    CHECK(comes_after(model, byte->arrivals[pull->to]) && comes_after(model, byte->arrivals[pull->from]));
    check_is_not_taken(model, byte, pull->to);
    byte->value[pull->to] = byte->value[pull->from];
    byte->arrivals[pull->to] = byte->taken[pull->from][pull->to] = model->ticket;
}

static void on_pull(void *context, const struct tsr_pull *pull)
{
    struct model *model = context;
    uint64_t rows = tsr_pull_rows(pull), width = tsr_pull_bytes(pull) / rows;
    REQUIRE(pull->first < pull->end && pull->end <= BYTES && pull->from != pull->to);
    CHECK_EQ(pull->first + (rows - 1) * pull->stride + width, pull->end);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t i = 0; i < width; i++)
            pull_byte(model, &model->bytes[pull->first + row * pull->stride + i], pull);
    model->pulled += rows * width;
}

static bool is_gap(const struct tsr_use *use, uint64_t at)
{
    return use->stride > use->width && (at - use->first) % use->stride >= use->width;
}

static void read_byte(const struct model *model, const struct byte *byte, uint8_t copy)
{
    CHECK(comes_after(model, byte->arrivals[copy]));
    if (byte->truth)
        CHECK_EQ(byte->value[copy], byte->truth);
}

static void write_byte(struct model *model, struct byte *byte, const struct tsr_use *use)
{
    CHECK(comes_after(model, byte->arrivals[use->copy]));
    check_is_not_taken(model, byte, use->copy);
    if (byte->source != use->copy)
        memset(byte->writers, 0, sizeof byte->writers);
    byte->writers[tsr_ticket_queue_of(use->ticket)] = number_of(use->ticket);
    byte->source = use->copy;
    if (!use->pulls || draw(model, 2))
        byte->truth = byte->value[use->copy] = ++model->written;
}

static void draw_bytes(struct model *model, struct tsr_use *use)
{
    static const uint64_t strides[] = {4, 6, 9};
    use->first = draw(model, BYTES);
    use->end = use->first + 1 + draw(model, draw(model, 3) ? 40 : BYTES);
    use->end = use->end < BYTES ? use->end : BYTES;
    use->writes = draw(model, 2);
    use->pulls = !use->writes || draw(model, 3) == 0;
    use->stride = use->width = 0;
    if (use->pulls || draw(model, 4) == 0)
        return;
    use->stride = draw(model, 8) ? strides[draw(model, 3)] : 2 + draw(model, 9);
    use->width = draw(model, 3) ? use->stride / 2 : 1 + draw(model, (unsigned)use->stride - 1);
    use->first -= draw(model, 4) ? use->first % use->width : 0; /* rows of several launches often meet */
}

/* The other rows: the gaps of the use, and a few more of them before and behind. */
static void turn_to_gaps(struct model *model, struct tsr_use *use)
{
    uint64_t width = use->width;
    use->first += width;
    use->width = use->stride - width;
    for (unsigned more = draw(model, 3); more && use->first >= use->stride; more--)
        use->first -= use->stride;
    use->end += draw(model, 12);
    use->end = use->end < BYTES ? use->end : BYTES;
}

static void forget(struct model *model)
{
    struct tsr_use use;
    draw_bytes(model, &use);
    tsr_directory_forget(&model->directory, use.first, use.end, (1u << COPIES) - 1);
    for (uint64_t i = use.first; i < use.end; i++) {
        model->bytes[i].truth = 0;
        memset(model->bytes[i].writers, 0, sizeof model->bytes[i].writers); /* nobody wants what they wrote */
    }
}

static void settle(struct model *model)
{
    tsr_directory_settle(&model->directory);
    for (unsigned i = 0; i < BYTES; i++) {
        memset(model->bytes[i].writers, 0, sizeof model->bytes[i].writers);
        memset(model->bytes[i].arrivals, 0, sizeof model->bytes[i].arrivals);
        memset(model->bytes[i].taken, 0, sizeof model->bytes[i].taken);
    }
}

/* The survey says how much would be pulled, wherever. */
static void check_survey(struct model *model, const struct tsr_use *use, bool (*is_fresh)(void *, uint64_t))
{
    struct tsr_survey survey = {0};
    struct tsr_survey_of of = {.copies = (1u << COPIES) - 1, .is_fresh = is_fresh, .context = model};
    struct tsr_directory_listener counts = {.pull = count_pull, .wait = ignore_wait, .context = model};
    tsr_directory_survey(&model->directory, use, &of, &survey);
    for (uint8_t copy = 0; copy < COPIES; copy++) {
        struct tsr_use there = *use;
        uint64_t lacking = survey.constants[copy];
        for (uint32_t i = 0; i < survey.part_count; i++)
            lacking += survey.parts[i].holders >> copy & 1 ? 0 : survey.parts[i].bytes;
        there.copy = copy;
        model->pulled = 0;
        tsr_directory_ask(&model->directory, &there, &counts);
        CHECK(survey.part_count == TSR_PLACE_PARTS ? lacking >= model->pulled : lacking == model->pulled);
    }
}

static bool never(void *context, uint64_t ticket)
{
    (void)context;
    (void)ticket;
    return false;
}

static bool always(void *context, uint64_t ticket)
{
    (void)context;
    return ticket != 0;
}

static void begin_launch(struct model *model, struct tsr_use *uses, unsigned count)
{
    uint64_t queue = draw(model, QUEUES);
    uint8_t copy = model->copy = draw(model, 4) ? model->copy : (uint8_t)draw(model, COPIES);
    model->ticket = queue << TSR_TICKET_SHIFT | ++model->numbers;
    for (unsigned i = 0; i < count; i++) {
        uses[i] = (struct tsr_use){.copy = copy, .ticket = model->ticket};
        if (i && uses[0].stride && draw(model, 2)) {
            uses[i] = uses[0];
            turn_to_gaps(model, &uses[i]);
        } else {
            draw_bytes(model, &uses[i]);
        }
    }
    unsigned with_gaps = 0;
    for (unsigned i = 0; i < count; i++)
        with_gaps += uses[i].stride != 0;
    for (unsigned i = 0; i < count; i++)
        uses[i].others_leave_gaps = with_gaps > 1;
    memset(model->clock, 0, sizeof model->clock);
    uint64_t last = 0; /* the queue's */
    for (uint64_t number = model->numbers - 1; number && !last; number--)
        last = model->clocks[number][queue] == number ? number : 0;
    if (last)
        come_after(model, last);
}

/* A launch: it asks for all that it uses, then has it; what it reads it reads before it writes. */
static void launch(struct model *model)
{
    struct tsr_use uses[MOST_USES];
    unsigned count = 1 + draw(model, MOST_USES);
    begin_launch(model, uses, count);
    struct tsr_directory_listener asks = {.pull = count_pull, .wait = on_wait, .guard = on_wait, .context = model};
    struct tsr_directory_listener pulls = {.pull = on_pull, .wait = ignore_wait, .context = model};
    bool full = !tsr_directory_has_room(&model->directory, TSR_CELL_SPLITS * (count + 1));
    if (full)
        tsr_directory_ask_all(&model->directory, uses[0].copy, &asks);
    for (unsigned i = 0; i < count && !full; i++) {
        check_survey(model, &uses[i], draw(model, 2) ? always : never);
        tsr_directory_ask(&model->directory, &uses[i], &asks);
    }
    if (full)
        tsr_directory_gather(&model->directory, uses[0].copy, model->ticket, &pulls);
    for (int pulling = 1; pulling >= 0; pulling--)
        for (unsigned i = 0; i < count; i++)
            if (uses[i].pulls == pulling)
                tsr_directory_apply(&model->directory, &uses[i], &pulls);
    model->clock[tsr_ticket_queue_of(model->ticket)] = model->numbers;
    memcpy(model->clocks[model->numbers], model->clock, sizeof model->clock);
    for (unsigned i = 0; i < count; i++)
        for (uint64_t at = uses[i].first; at < uses[i].end && uses[i].pulls; at++)
            read_byte(model, &model->bytes[at], uses[i].copy);
    for (unsigned i = 0; i < count; i++)
        for (uint64_t at = uses[i].first; at < uses[i].end && uses[i].writes; at++)
            if (!is_gap(&uses[i], at))
                write_byte(model, &model->bytes[at], &uses[i]);
}

static void campaign(uint32_t most, unsigned seed, unsigned steps)
{
    struct model model = {.seed = {(unsigned short)seed, 5, 13}, .clocks = calloc(steps + 2, sizeof *model.clocks)};
    REQUIRE(model.clocks && tsr_directory_start(&model.directory, BYTES, (1u << COPIES) - 1));
    model.directory.most = most;
    for (unsigned i = 0; i < steps && check_failures == 0; i++) {
        if (draw(&model, 50) == 0)
            forget(&model);
        if (draw(&model, 200) == 0)
            settle(&model);
        launch(&model);
        check_whole(&model.directory);
    }
    tsr_directory_fini(&model.directory);
    free(model.clocks);
}

TEST(every_read_finds_what_was_written_last_and_comes_after_all_it_must)
{
    for (unsigned seed = 0; seed < 4; seed++)
        campaign(8 * BYTES, seed, check_steps(STEPS / 4));
}

TEST(so_it_does_with_few_cells)
{
    for (unsigned most = 8; most < 24; most += 3)
        campaign(most, most, check_steps(STEPS / 8));
}

static uint64_t use(struct tsr_directory *directory, struct tsr_use of)
{
    struct model model = {.pulled = 0};
    struct tsr_directory_listener counts = {.pull = count_pull, .wait = ignore_wait, .context = &model};
    tsr_directory_apply(directory, &of, &counts);
    return model.pulled;
}

/* Home has written all; then rows of 40 bytes of every 100, and their gaps, are overwritten. */
static const struct tsr_use HOME = {.end = 1000, .ticket = 1, .writes = true};
static const struct tsr_use ROWS = {.end = 940, .ticket = 2, .copy = 1, .writes = true, .stride = 100, .width = 40};
static const struct tsr_use GAPS = {
    .first = 40, .end = 1000, .ticket = 3, .copy = 1, .writes = true, .stride = 100, .width = 60};

static void begin(struct tsr_directory *directory)
{
    REQUIRE(tsr_directory_start(directory, 1000, 3));
    use(directory, HOME);
}

static struct tsr_use reader(uint8_t copy)
{
    return (struct tsr_use){.end = 1000, .ticket = 9, .copy = copy, .pulls = true};
}

TEST(two_halves_that_are_overwritten_one_after_the_other_are_never_pulled)
{
    struct tsr_directory directory;
    begin(&directory);
    CHECK_EQ(use(&directory, ROWS) + use(&directory, GAPS) + use(&directory, reader(1)), 0);
    for (size_t i = 0; i < directory.cells.count; i++)
        CHECK_EQ(tsr_cell_part_count(&directory.cells.data[i]), 1);
    CHECK_EQ(use(&directory, reader(0)), 1000);
    tsr_directory_fini(&directory);
}

TEST(each_gpu_lacks_the_half_that_the_other_one_wrote)
{
    struct tsr_directory directory;
    begin(&directory);
    CHECK_EQ(use(&directory, ROWS), 0);
    struct tsr_use gaps = GAPS;
    gaps.copy = 0;
    CHECK_EQ(use(&directory, gaps), 0);
    CHECK_EQ(use(&directory, reader(0)), 400);
    CHECK_EQ(use(&directory, reader(1)), 600);
    CHECK_EQ(use(&directory, reader(0)) + use(&directory, reader(1)), 0);
    tsr_directory_fini(&directory);
}

TEST(of_other_rows_all_that_is_missing_is_pulled)
{
    struct tsr_directory directory;
    begin(&directory);
    CHECK_EQ(use(&directory, ROWS), 0);
    struct tsr_use other = {.end = 940, .ticket = 3, .copy = 1, .writes = true, .stride = 50, .width = 20};
    CHECK_EQ(use(&directory, other), 9 * 60);
    CHECK_EQ(use(&directory, reader(1)), 60);
    tsr_directory_fini(&directory);
}

TEST(who_repeats_rows_changes_nothing_until_another_gpu_has_a_part_in_them)
{
    struct tsr_directory directory;
    begin(&directory);
    struct tsr_use rows = ROWS, gaps = GAPS;
    rows.repeats = gaps.repeats = true;
    CHECK_EQ(tsr_directory_look(&directory, &rows), TSR_DIRECTORY_HOLDS);
    use(&directory, rows);
    CHECK_EQ(tsr_directory_look(&directory, &rows), TSR_DIRECTORY_SAME);
    CHECK_EQ(tsr_directory_look(&directory, &gaps), TSR_DIRECTORY_HOLDS);
    use(&directory, gaps);
    CHECK_EQ(tsr_directory_look(&directory, &rows), TSR_DIRECTORY_SAME);
    CHECK_EQ(tsr_directory_look(&directory, &gaps), TSR_DIRECTORY_SAME);
    struct tsr_use read = reader(0);
    CHECK_EQ(tsr_directory_look(&directory, &read), TSR_DIRECTORY_HOLDS);
    use(&directory, read);
    CHECK_EQ(tsr_directory_look(&directory, &rows), TSR_DIRECTORY_HOLDS);
    tsr_directory_fini(&directory);
}

/* Bytes of the use that are in [first, end), each marked in `marks`. False: one was marked already. */
static bool mark(const struct tsr_use *use, uint64_t first, uint64_t end, uint8_t marks[BYTES])
{
    bool fresh = true;
    for (uint64_t at = use->first > first ? use->first : first; at < use->end && at < end; at++) {
        bool is_used = !use->stride || (at - use->first) % use->stride < use->width;
        fresh &= !is_used || !marks[at];
        marks[at] |= is_used;
    }
    return fresh;
}

TEST(what_of_rows_lies_in_two_extents_is_exactly_the_rows)
{
    unsigned short seed[3] = {7};
    for (unsigned i = 0, last = check_steps(20000); i < last; i++) {
        uint64_t stride = 2 + (uint64_t)nrand48(seed) % 12, first = (uint64_t)nrand48(seed) % 40;
        struct tsr_use parts[2], use = {.first = first,
                                        .end = first + 1 + (uint64_t)nrand48(seed) % (BYTES - first),
                                        .writes = true,
                                        .stride = stride,
                                        .width = 1 + (uint64_t)nrand48(seed) % stride};
        uint64_t edge = (uint64_t)nrand48(seed) % BYTES;
        uint8_t wanted[BYTES] = {0}, found[BYTES] = {0};
        mark(&use, 0, BYTES, wanted);
        for (unsigned extent = 0; extent < 2; extent++) {
            uint64_t low = extent ? edge : 0, high = extent ? BYTES : edge;
            unsigned count = tsr_use_cut(&use, low, high, parts);
            for (unsigned n = 0; n < count; n++) {
                CHECK(parts[n].first >= low && parts[n].end <= high && parts[n].first < parts[n].end && !parts[n].pulls);
                CHECK(mark(&parts[n], low, high, found));
            }
        }
        CHECK(memcmp(wanted, found, BYTES) == 0);
    }
}

TEST(what_is_read_in_two_extents_is_all_between_its_ends)
{
    struct tsr_use parts[2], use = {.first = 10, .end = 90, .pulls = true, .stride = 8, .width = 2};
    CHECK_EQ(tsr_use_cut(&use, 33, 96, parts), 1);
    CHECK_EQ(parts[0].first, 33);
    CHECK_EQ(parts[0].end, 90);
    CHECK_EQ(tsr_use_cut(&use, 90, 96, parts), 0);
}
