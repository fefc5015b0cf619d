/* See copies.h. What uses would have to pull, by GPU. */
#include <pthread.h>

#include "memory/copies_inquiry.h"
#include "memory/directory_cells.h"

static void survey_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
{
    if (inquiry->survey_of->in_pool)
        tsr_copies_survey_in_pool_locked(copies, use, inquiry->survey_of, inquiry->survey);
    else
        tsr_directory_survey(&copies->directory, use, inquiry->survey_of, inquiry->survey);
}

/* The touch as one that only reads. NULL: it has more than one cell. */
static const struct tsr_cell *cell_read_locked(const struct tsr_touch *touch)
{
    struct tsr_touch read = {.first = touch->first, .end = touch->end, .pulls = true};
    struct tsr_copies *copies;
    return tsr_copies_cell_locked(&read, &copies);
}

/* What is read of bytes, rather than of some rows of them. */
static void survey_read_locked(const struct tsr_touch *touch, const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    const struct tsr_cell *cell = cell_read_locked(touch);
    if (cell) {
        tsr_part_survey(&cell->parts[0], touch->end - touch->first, of, survey);
        return;
    }
    for (uint64_t at = touch->first, next; at < touch->end && at - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES; at = next) {
        const struct tsr_copies *copies = tsr_copies_at_locked(at);
        next = copies ? copies->address + copies->bytes : at / TSR_ARENA_PAGE * TSR_ARENA_PAGE + TSR_ARENA_PAGE;
        if (!copies)
            continue;
        struct tsr_use use = {
            .first = at - copies->address, .end = tsr_least(touch->end, next) - copies->address, .pulls = true};
        tsr_directory_survey(&copies->directory, &use, of, survey);
    }
}

/* Also of rows that are overwritten, where that brings those between them to the GPU; and in a pool. */
static void survey_each_locked(const struct tsr_touch *touches, uint32_t count, const struct tsr_survey_of *of,
                               struct tsr_survey *survey)
{
    struct tsr_copies_use use = {.touches = touches, .count = count};
    struct tsr_inquiry inquiry = {.use = &use, .survey_of = of, .survey = survey};
    tsr_inquiry_each_locked(&inquiry, 0, survey_locked);
}

void tsr_copies_survey(const struct tsr_touch *touches, uint32_t count, const struct tsr_survey_of *of,
                       struct tsr_survey *survey)
{
    bool each = of->in_pool;
    for (uint32_t i = 0; i < count; i++)
        each |= touches[i].stride != 0;
    pthread_mutex_lock(&tsr_copies_lock);
    for (uint32_t i = 0; i < count && !each; i++)
        if (touches[i].pulls)
            survey_read_locked(&touches[i], of, survey);
    if (each)
        survey_each_locked(touches, count, of, survey);
    pthread_mutex_unlock(&tsr_copies_lock);
}
