/* See plan_position.h. */
#include "schedule/plan_position.h"

#include <string.h>

_Static_assert(TSR_PLAN_CLASSES == sizeof((struct tsr_plan_table *)0)->classes / sizeof(struct tsr_plan_class), "classes");
_Static_assert(TSR_PLAN_OPERATIONS == sizeof((struct tsr_plan_table *)0)->class_of / sizeof(uint16_t), "operations");
_Static_assert(TSR_PLAN_OPERATIONS == sizeof((struct tsr_plan_placement *)0)->group, "operations");
_Static_assert(TSR_PLAN_PLACEMENTS == sizeof((struct tsr_plan_table *)0)->placements / sizeof(struct tsr_plan_placement),
               "placements");

static uint32_t symbol_of(const struct tsr_plan_index *index, uint32_t class, bool continues)
{
    return class << 1 | (index->table.compares_reads && continues);
}

static bool is_launch(const struct tsr_plan_table *table, uint32_t operation)
{
    return table->classes[table->class_of[operation]].what == TSR_PLAN_LAUNCH;
}

static bool is_sound(const struct tsr_plan_table *table)
{
    if (table->class_count > TSR_PLAN_CLASSES || table->operation_count > TSR_PLAN_OPERATIONS ||
        table->placement_count > TSR_PLAN_PLACEMENTS || table->group_count > TSR_GPUS)
        return false;
    for (uint32_t i = 0; i < table->operation_count; i++) {
        if (table->class_of[i] >= table->class_count)
            return false;
        for (uint32_t placement = 0; placement < table->placement_count; placement++)
            if (table->placements[placement].group[i] >= table->group_count)
                return false;
    }
    for (uint32_t i = 0; i < table->group_count; i++)
        if (!table->groups[i].count || table->groups[i].count > TSR_GPUS)
            return false;
    return table->operation_count && table->placement_count;
}

/* 0: the placements do not agree. */
static uint8_t group_of(const struct tsr_plan_table *table, uint32_t operation)
{
    uint8_t group = table->placements[0].group[operation];
    for (uint32_t i = 1; i < table->placement_count; i++)
        if (table->placements[i].group[operation] != group)
            return 0;
    return table->groups[group].count == 1 ? (uint8_t)(group + 1) : 0;
}

bool tsr_plan_index_make(struct tsr_plan_index *index)
{
    const struct tsr_plan_table *table = &index->table;
    if (!is_sound(table))
        return false;
    index->launch_count = 0;
    memset(index->last, 0, sizeof index->last);
    memset(index->settled, 0, sizeof index->settled);
    for (uint32_t operation = 0; operation < table->operation_count; operation++) {
        if (!is_launch(table, operation))
            continue;
        uint32_t symbol = symbol_of(index, table->class_of[operation], table->continues[operation]);
        uint32_t number = index->launch_count++;
        uint8_t group = group_of(table, operation);
        index->settled[symbol] = !index->last[symbol] || index->settled[symbol] == group ? group : 0;
        index->launches[number] = (uint16_t)operation;
        index->symbols[number] = (uint16_t)symbol;
        index->next[number] = index->last[symbol];
        index->last[symbol] = (uint16_t)(number + 1);
    }
    return index->launch_count != 0;
}

static bool has_been(const struct tsr_plan_index *index, const struct tsr_plan_position *position, uint32_t number)
{
    for (uint32_t i = 0; i < position->length; i++) {
        if (position->history[(position->seen - 1 - i) % TSR_PLAN_HISTORY] != index->symbols[number])
            return false;
        number = (number ? number : index->launch_count) - 1;
    }
    return true;
}

/* Launches of the iteration that may be the last one of the history; up to two are counted. */
static uint32_t places(const struct tsr_plan_index *index, const struct tsr_plan_position *position, uint32_t symbol,
                       uint32_t *place)
{
    uint32_t count = 0;
    for (uint32_t i = index->last[symbol]; i && count < 2; i = index->next[i - 1]) {
        if (!has_been(index, position, i - 1))
            continue;
        *place = i - 1;
        count++;
    }
    return count;
}

/* Its class alone tells nothing. */
static enum tsr_plan_met begin_again(struct tsr_plan_position *position)
{
    position->known = false;
    position->length = 0;
    return TSR_PLAN_MET_UNPLACED;
}

static enum tsr_plan_met search(const struct tsr_plan_index *index, struct tsr_plan_position *position, uint32_t symbol)
{
    bool breaks = position->known;
    uint32_t place = 0, count;
    position->known = false;
    position->length = breaks ? 1 : position->length < TSR_PLAN_HISTORY ? position->length + 1 : TSR_PLAN_HISTORY;
    while (!(count = places(index, position, symbol, &place)) && position->length > 1) {
        position->length = 1;
        breaks = true;
    }
    if (!count)
        position->length = 0;
    if (count == 1) {
        position->known = true;
        position->at = index->launches[place];
    }
    return breaks || !count ? TSR_PLAN_MET_UNEXPECTED : count == 1 ? TSR_PLAN_MET_FIRST : TSR_PLAN_MET_UNPLACED;
}

enum tsr_plan_met tsr_plan_meet(const struct tsr_plan_index *index, struct tsr_plan_position *position, uint32_t class,
                                enum tsr_plan_reads reads)
{
    const struct tsr_plan_table *table = &index->table;
    uint32_t symbol = symbol_of(index, class, reads == TSR_PLAN_READS_SOME), operation = position->at;
    bool launches = table->classes[class].what == TSR_PLAN_LAUNCH, begins = false;
    bool by_class = !launches || (table->compares_reads && reads == TSR_PLAN_READS_UNKNOWN);
    if (launches && by_class && !position->known)
        return begin_again(position);
    if (launches)
        position->history[position->seen++ % TSR_PLAN_HISTORY] = (uint16_t)symbol;
    if (!position->known)
        return launches ? search(index, position, symbol) : TSR_PLAN_MET_NONE;
    for (uint32_t i = 0; i < table->operation_count; i++) {
        operation = operation + 1 < table->operation_count ? operation + 1 : 0;
        begins |= !operation;
        bool is_one = is_launch(table, operation);
        if (launches ? is_one : is_one || table->class_of[operation] == class)
            break;
    }
    bool met = by_class ? table->class_of[operation] == class
                        : symbol_of(index, table->class_of[operation], table->continues[operation]) == symbol;
    if (!met && launches)
        return by_class ? begin_again(position) : search(index, position, symbol);
    if (!met)
        return TSR_PLAN_MET_NONE;
    position->at = operation;
    return begins ? TSR_PLAN_MET_FIRST : TSR_PLAN_MET_NEXT;
}

uint32_t tsr_plan_settled(const struct tsr_plan_index *index, uint32_t class, enum tsr_plan_reads reads)
{
    if (reads == TSR_PLAN_READS_UNKNOWN)
        return TSR_PLAN_NOWHERE;
    uint32_t group = index->settled[symbol_of(index, class, reads == TSR_PLAN_READS_SOME)];
    return group ? group - 1 : TSR_PLAN_NOWHERE;
}
