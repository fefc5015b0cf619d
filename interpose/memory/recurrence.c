/* See recurrence.h. */
#include "memory/recurrence.h"

#define MOST_SUFFIX 32u /* items that are compared */

void tsr_recurrence_start(struct tsr_recurrence *recurrence)
{
    recurrence->count = 0;
    recurrence->match = TSR_RECURRENCE_NONE;
    recurrence->sure = 0;
}

static uint32_t item_at(const struct tsr_recurrence *recurrence, uint64_t place)
{
    return recurrence->items[place % TSR_RECURRENCE_ITEMS];
}

static uint64_t oldest(const struct tsr_recurrence *recurrence)
{
    return recurrence->count > TSR_RECURRENCE_ITEMS ? recurrence->count - TSR_RECURRENCE_ITEMS : 0;
}

/* How many items up to this place are those up to the last one. */
static uint32_t suffix_at(const struct tsr_recurrence *recurrence, uint64_t place)
{
    uint64_t last = recurrence->count - 1, first = oldest(recurrence);
    uint32_t same = 0;
    while (same < MOST_SUFFIX && place >= first + same && item_at(recurrence, place - same) == item_at(recurrence, last - same))
        same++;
    return same;
}

/* The last of the places that match best. */
static uint64_t find(const struct tsr_recurrence *recurrence)
{
    uint64_t best = TSR_RECURRENCE_NONE, first = oldest(recurrence);
    uint32_t most = 0;
    for (uint64_t place = recurrence->count - 1; place-- > first && most < MOST_SUFFIX;) {
        uint32_t same = suffix_at(recurrence, place);
        if (same > most) {
            most = same;
            best = place;
        }
    }
    return best;
}

bool tsr_recurrence_note(struct tsr_recurrence *recurrence, uint32_t item)
{
    uint64_t count = recurrence->count;
    if (count && item_at(recurrence, count - 1) == item)
        return false;
    bool expected = recurrence->match != TSR_RECURRENCE_NONE && recurrence->match + 1 >= oldest(recurrence) + 1 &&
                    item_at(recurrence, recurrence->match + 1) == item;
    recurrence->items[count % TSR_RECURRENCE_ITEMS] = item;
    recurrence->count++;
    if (expected) {
        recurrence->match++;
        recurrence->sure += recurrence->sure < TSR_RECURRENCE_SURE;
        return true;
    }
    recurrence->sure = recurrence->sure < 2 ? 0 : recurrence->sure - 2;
    recurrence->match = find(recurrence);
    return true;
}

uint64_t tsr_recurrence_period(const struct tsr_recurrence *recurrence)
{
    bool known = recurrence->match != TSR_RECURRENCE_NONE && recurrence->match >= oldest(recurrence);
    return known ? recurrence->count - 1 - recurrence->match : 0;
}

uint32_t tsr_recurrence_next(const struct tsr_recurrence *recurrence, uint64_t after)
{
    return item_at(recurrence, recurrence->match + 1 + after);
}

uint32_t tsr_recurrence_last(const struct tsr_recurrence *recurrence, uint64_t ago)
{
    return item_at(recurrence, recurrence->count - 1 - ago);
}
