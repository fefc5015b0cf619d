/* See directory.h: where a launch would find what it reads. */
#include "memory/directory_cells.h"

#include <string.h>

/* Parts are set as they are counted. */
void tsr_survey_begin(struct tsr_survey *survey)
{
    survey->part_count = 0;
    memset(survey->constants, 0, sizeof survey->constants);
    memset(survey->through_link, 0, sizeof survey->through_link);
    memset(survey->new_copies, 0, sizeof survey->new_copies);
}

/* Of more parts than there is room for: one that the same GPUs hold, or the last. */
static struct tsr_place_part *alike(struct tsr_survey *survey, uint16_t holders)
{
    uint32_t i = 0;
    while (i + 1 < TSR_PLACE_PARTS && survey->parts[i].holders != holders)
        i++;
    return &survey->parts[i];
}

void tsr_survey_add(struct tsr_survey *survey, uint64_t writer, uint64_t bytes, uint16_t holders)
{
    struct tsr_place_part *parts = survey->parts;
    for (uint32_t i = 0; i < survey->part_count; i++)
        if (parts[i].writer == writer && parts[i].holders == holders) {
            parts[i].bytes += bytes;
            return;
        }
    if (survey->part_count < TSR_PLACE_PARTS) {
        parts[survey->part_count++] = (struct tsr_place_part){writer, bytes, holders};
        return;
    }
    struct tsr_place_part *other = alike(survey, holders);
    if (bytes > other->bytes)
        other->writer = writer;
    other->bytes += bytes;
    other->holders &= holders;
}

void tsr_part_survey(const struct tsr_part *part, uint64_t bytes, const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    bool fresh = false;
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && part->writers[i]; i++) {
        if (!of->is_fresh(of->context, part->writers[i]))
            continue;
        tsr_survey_add(survey, part->writers[i], fresh ? 0 : bytes, fresh ? of->copies : part->holders & of->copies);
        fresh = true;
    }
    for (uint32_t lacking = fresh ? 0 : of->copies & ~part->holders; lacking; lacking &= lacking - 1)
        survey->constants[__builtin_ctz(lacking)] += bytes;
}

static void survey_cell(const struct tsr_cell *cell, uint64_t first, uint64_t end, const struct tsr_use *use,
                        const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    bool pulls = use->pulls || tsr_cell_plan(cell, first, end, use).pulls;
    for (unsigned part = 0; part < tsr_cell_part_count(cell) && pulls; part++) {
        uint64_t bytes = cell->rows.stride ? tsr_rows_bytes(tsr_cell_rows(cell, part), first, end) : end - first;
        if (bytes)
            tsr_part_survey(&cell->parts[part], bytes, of, survey);
    }
}

void tsr_directory_survey(const struct tsr_directory *directory, const struct tsr_use *use, const struct tsr_survey_of *of,
                          struct tsr_survey *survey)
{
    struct tsr_use anywhere = *use;
    anywhere.copy = TSR_DIRECTORY_COPIES; /* no cell's holder */
    if (use->first >= use->end)
        return;
    for (size_t i = tsr_cell_find(directory, use->first);
         i < directory->cells.count && directory->cells.data[i].first < use->end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint64_t first = cell->first > use->first ? cell->first : use->first,
                 end = tsr_least(tsr_cell_end(directory, i), use->end);
        survey_cell(cell, first, end, &anywhere, of, survey);
    }
}
