/* The directory of copies (memory/directory.c) from within, for tests that hold it against a model; and what holds at any time. */
#define TSR_DIRECTORY_LEAST_ROW 1u
#include "memory/directory.c"
#include "memory/directory_ask.c"
#include "memory/directory_cells.c"
#include "memory/directory_survey.c"

#include "check.h"

static void check_whole(const struct tsr_directory *directory)
{
    CHECK(directory->cells.count <= directory->most);
    CHECK_EQ(directory->cells.data[0].first, 0);
    for (size_t i = 0; i < directory->cells.count; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        CHECK(cell->first < tsr_cell_end(directory, i));
        for (unsigned part = 0; part < tsr_cell_part_count(cell); part++)
            CHECK(cell->parts[part].holders >> cell->parts[part].source & 1);
        CHECK(i == 0 || !is_like(cell, cell - 1));
    }
}
