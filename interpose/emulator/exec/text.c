/*
 * Collecting what blocks print, and writing it out in the order of the blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "printf.h"
#include "state.h"

#define TEAM_TEXT_BYTES (1u << 20) /* at most per team, as the device's buffer; the rest is lost */
#define GRID_TEXT_BYTES (8u << 20) /* written out at once beyond this, though later blocks may have finished earlier */

void tsr_text_add(struct tsr_team *team, const char *data, size_t bytes)
{
    struct tsr_printf_text *text = team->text;
    size_t used = text != NULL ? text->bytes : 0, needed = used + bytes;
    if (needed > TEAM_TEXT_BYTES)
        return;
    if (text == NULL || needed > text->capacity) {
        size_t capacity = needed < 512 ? 1024 : needed * 2;
        struct tsr_printf_text *larger = realloc(text, sizeof *larger + capacity);
        if (larger == NULL)
            return;
        if (text == NULL)
            *larger = (struct tsr_printf_text){.index = team->index};
        larger->capacity = capacity;
        team->text = text = larger;
    }
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
}

void tsr_text_hand_over_locked(struct tsr_grid *grid, struct tsr_team *team)
{
    struct tsr_printf_text *text = team->text;
    if (text == NULL)
        return;
    team->text = NULL;
    text->next = grid->texts;
    grid->texts = text;
    grid->text_bytes += text->bytes;
    if (grid->text_bytes > GRID_TEXT_BYTES)
        tsr_text_write(grid);
}

static int by_index(const void *a, const void *b)
{
    uint64_t x = (*(struct tsr_printf_text *const *)a)->index, y = (*(struct tsr_printf_text *const *)b)->index;
    return x < y ? -1 : x > y;
}

void tsr_text_write(struct tsr_grid *grid)
{
    size_t count = 0, n = 0;
    for (const struct tsr_printf_text *text = grid->texts; text != NULL; text = text->next)
        count++;
    if (count == 0)
        return;
    struct tsr_printf_text **sorted = malloc(count * sizeof *sorted);
    for (struct tsr_printf_text *text = grid->texts, *next; text != NULL; text = next) {
        next = text->next;
        if (sorted != NULL) {
            sorted[n++] = text;
        } else { /* no memory to sort: better out of order than lost */
            tsr_os_write_all(1, text->data, text->bytes);
            free(text);
        }
    }
    if (sorted != NULL)
        qsort(sorted, n, sizeof *sorted, by_index);
    for (size_t t = 0; t < n; t++) {
        tsr_os_write_all(1, sorted[t]->data, sorted[t]->bytes);
        free(sorted[t]);
    }
    free(sorted);
    grid->texts = NULL;
    grid->text_bytes = 0;
}
