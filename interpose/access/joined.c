/*
 * Joins the systems of similar stores. The copies of a store in an unrolled loop differ by the loop's step: where an index is decomposed
 * by divisions, each copy has quotients of its own, and alone writes only fragments. If the constants of all rows grow by the
 * same steps from one copy to the next, a variable counts the copies. Redundant conditions are removed before.
 */
#include "access/evaluation.h"

static bool have_same_variables(const struct tsr_integer_points *l, const struct tsr_points_row *a,
                                const struct tsr_points_row *b)
{
    for (uint32_t i = 0; i < l->columns; i++)
        if (a->by[i] != b->by[i])
            return false;
    return true;
}

/* Whether the box or another condition implies a condition. */
static bool is_implied(const struct tsr_integer_points *l, uint32_t row)
{
    const struct tsr_points_row *own = &l->row[row];
    tsr_wide most = own->constant;
    bool has_results = false;
    for (uint32_t i = 0; i < l->columns; i++) {
        has_results |= own->by[i] && l->column[i].is_result;
        most += own->by[i] > 0 ? (tsr_wide)own->by[i] * l->column[i].last : 0;
    }
    if (!has_results && most <= 0)
        return true;
    for (uint32_t n = 0; n < l->rows; n++) {
        const struct tsr_points_row *other = &l->row[n];
        bool is_stronger = other->constant > own->constant || (other->constant == own->constant && n < row);
        if (n != row && l->use[n] == TSR_ROW_CONDITION && is_stronger && have_same_variables(l, own, other))
            return true;
    }
    return false;
}

static void leave_out_implied(struct tsr_integer_points *l)
{
    for (uint32_t n = 0; n < l->rows; n++)
        if (l->use[n] == TSR_ROW_CONDITION && is_implied(l, n))
            l->use[n] = TSR_ROW_NONE;
}

static bool are_alike(const struct tsr_integer_points *a, const struct tsr_integer_points *b)
{
    if (a->columns != b->columns || a->divisions != b->divisions)
        return false;
    for (uint32_t i = 0; i < a->columns; i++) {
        const struct tsr_points_column *x = &a->column[i], *y = &b->column[i];
        if (x->last != y->last || x->is_result != y->is_result || (!x->is_result && x->symbol != y->symbol))
            return false;
    }
    for (uint32_t i = 0; i < a->divisions; i++) {
        const struct tsr_points_division *x = &a->division[i], *y = &b->division[i];
        if (x->divisor != y->divisor || x->quotient != y->quotient || x->remainder != y->remainder)
            return false;
    }
    return true;
}

static uint32_t next_condition(const struct tsr_integer_points *l, uint32_t row)
{
    while (row < l->rows && l->use[row] != TSR_ROW_CONDITION)
        row++;
    return row;
}

/* How far b's constants are from a's, by a's rows. False: they differ in more. */
static bool steps_between(const struct tsr_integer_points *a, const struct tsr_integer_points *b,
                          int64_t steps[TSR_POINTS_ROWS])
{
    if (!are_alike(a, b) || !have_same_variables(a, &a->row[0], &b->row[0]))
        return false;
    steps[0] = b->row[0].constant - a->row[0].constant;
    for (uint32_t i = 0; i < a->divisions; i++) {
        uint32_t x = a->division[i].dividend, y = b->division[i].dividend;
        if (!have_same_variables(a, &a->row[x], &b->row[y]))
            return false;
        steps[x] = b->row[y].constant - a->row[x].constant;
    }
    uint32_t x = next_condition(a, 0), y = next_condition(b, 0);
    for (; x < a->rows && y < b->rows; x = next_condition(a, x + 1), y = next_condition(b, y + 1)) {
        if (!have_same_variables(a, &a->row[x], &b->row[y]))
            return false;
        steps[x] = b->row[y].constant - a->row[x].constant;
    }
    return x == a->rows && y == b->rows;
}

/* A variable for `count` systems. False: there is no room. */
static bool add_variable(struct tsr_integer_points *l, const int64_t steps[TSR_POINTS_ROWS], uint32_t count)
{
    uint32_t column = l->columns, first = 0;
    if (column == TSR_POINTS_COLUMNS)
        return false;
    l->column[column] = (struct tsr_points_column){count - 1, TSR_NO_SYMBOL, false};
    l->columns++;
    while (first < l->rows && (l->use[first] == TSR_ROW_NONE || steps[first] == 0))
        first++;
    bool falls = first < l->rows && steps[first] < 0; /* counted from the last one */
    for (uint32_t n = 0; n < l->rows; n++) {
        int64_t step = l->use[n] == TSR_ROW_NONE ? 0 : steps[n];
        l->row[n].constant += falls ? step * (count - 1) : 0;
        l->row[n].by[column] = falls ? -step : step;
    }
    return true;
}

/* The system of all points of some systems, in the place of the first one. How many of them, from the first on, it is of. */
uint32_t tsr_points_join(struct tsr_evaluation *e, struct tsr_integer_points *const *systems, uint32_t count)
{
    int64_t steps[TSR_POINTS_ROWS] = {0}, further[TSR_POINTS_ROWS] = {0};
    uint32_t joined = 1;
    for (uint32_t i = 0; i < count; i++)
        leave_out_implied(systems[i]);
    for (; joined < count; joined++) {
        bool goes_on = steps_between(systems[0], systems[joined], joined == 1 ? steps : further);
        tsr_evaluation_spend(e, systems[0]->rows);
        for (uint32_t n = 0; n < systems[0]->rows && goes_on && joined > 1; n++)
            goes_on = further[n] == steps[n] * joined;
        if (!goes_on)
            break;
    }
    return joined > 1 && add_variable(systems[0], steps, joined) ? joined : 1;
}
