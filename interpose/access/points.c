/*
 * The bytes at all integer points of a system: the points of a box of variables at which all conditions are at most 0, mapped to addresses by an
 * affine form. The result is an under-approximation: every byte of a piece belongs to a point. Changes of variables are
 * bijections; where points are given up, pieces become fewer, never wider.
 *
 * - A variable that is alone in a condition gets its end from it.
 * - u and v whose coefficients are everywhere as r to 1 are one variable r * u + v when v has r values at least: each of its integers is
 *   reached. So blocks and threads become an index, and iterations of a loop over a grid its next digit.
 * - What is divided by d becomes digits, quotient and remainder, that are free in the box but for the last quotient.
 * - A condition that several variables are left in holds for the first values of one of them whatever the others are; its last few values
 *   are looked at one by one.
 */
#include "access/evaluation.h"

#define LARGEST ((tsr_wide)1 << 45) /* of coefficients and ends */
#define FARTHEST ((tsr_wide)1 << 61)
#define CASES 4 /* values of a variable that are looked at one by one */
#define CASES_DEEP 3
#define ENUMERATED 32 /* pieces of one address, at most */

struct solver {
    struct tsr_evaluation *e;
    int64_t size;
    struct tsr_points_piece *pieces;
    uint32_t capacity, count;
};

struct dimension {
    int64_t stride, count;
};

static bool is_near(tsr_wide a, tsr_wide limit)
{
    return -limit <= a && a <= limit;
}

/* The greatest value of a row, or the least. */
static tsr_wide end_of(const struct tsr_integer_points *l, const struct tsr_points_row *row, bool upper)
{
    tsr_wide total = row->constant;
    for (uint32_t i = 0; i < l->columns; i++)
        if (row->by[i] && (row->by[i] > 0) == upper)
            total += (tsr_wide)row->by[i] * l->column[i].last;
    return total;
}

static bool has_results(const struct tsr_integer_points *l, const struct tsr_points_row *row)
{
    for (uint32_t i = 0; i < l->columns; i++)
        if (row->by[i] && l->column[i].is_result)
            return true;
    return false;
}

/* Variable = factor * variable + distance, in all rows. False: too large. */
static bool change(struct tsr_integer_points *l, uint32_t column, int64_t factor, int64_t distance)
{
    for (uint32_t n = 0; n < l->rows; n++) {
        struct tsr_points_row *row = &l->row[n];
        if (l->use[n] == TSR_ROW_NONE || !row->by[column])
            continue;
        tsr_wide constant = row->constant + (tsr_wide)row->by[column] * distance;
        if (!is_near(constant, FARTHEST))
            return false;
        row->constant = (int64_t)constant;
        row->by[column] *= factor;
    }
    return true;
}

static bool flip(struct tsr_integer_points *l, uint32_t column)
{
    return change(l, column, -1, l->column[column].last);
}

static bool fix(struct tsr_integer_points *l, uint32_t column, int64_t value)
{
    l->column[column].last = 0;
    return change(l, column, 0, value);
}

/* A condition of one variable as its end. False: it never holds. */
static bool bound(struct tsr_integer_points *l, uint32_t column, int64_t by, int64_t constant)
{
    struct tsr_points_column *of = &l->column[column];
    if (by > 0) {
        int64_t last = (int64_t)tsr_wide_divide(-(tsr_wide)constant, by);
        of->last = last < of->last ? last : of->last;
        return of->last >= 0;
    }
    int64_t first = (int64_t)-tsr_wide_divide(-(tsr_wide)constant, -(tsr_wide)by);
    if (first <= 0)
        return true;
    of->last -= first;
    return of->last >= 0 && change(l, column, 1, first);
}

/* The strongest form of a condition over integers; the only variable of it, or TSR_POINTS_COLUMNS. */
static uint32_t normalize(const struct tsr_integer_points *l, struct tsr_points_row *row)
{
    tsr_wide common = 0;
    uint32_t count = 0, only = 0;
    for (uint32_t i = 0; i < l->columns; i++)
        if (l->column[i].last == 0) {
            row->by[i] = 0;
        } else if (row->by[i]) {
            common = tsr_wide_common(common, row->by[i]);
            only = i;
            count++;
        }
    if (common > 1) {
        row->constant = (int64_t)-tsr_wide_divide(-(tsr_wide)row->constant, common);
        for (uint32_t i = 0; i < l->columns; i++)
            row->by[i] /= (int64_t)common;
    }
    return count == 1 ? only : TSR_POINTS_COLUMNS;
}

/* Conditions that the box implies are dropped, those of one variable taken into it. False: no point is left. */
static bool tighten(struct tsr_integer_points *l)
{
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        for (uint32_t n = 0; n < l->rows; n++) {
            struct tsr_points_row *row = &l->row[n];
            if (l->use[n] != TSR_ROW_CONDITION || has_results(l, row))
                continue;
            if (end_of(l, row, false) > 0)
                return false;
            uint32_t only = normalize(l, row);
            bool is_implied = end_of(l, row, true) <= 0;
            if (!is_implied && only == TSR_POINTS_COLUMNS)
                continue;
            l->use[n] = TSR_ROW_NONE;
            if (!is_implied && !bound(l, only, row->by[only], row->constant))
                return false;
            goes_on |= !is_implied;
        }
    }
    return true;
}

static bool is_free(const struct tsr_integer_points *l, uint32_t column)
{
    return !l->column[column].is_result && l->column[column].last > 0;
}

/* What u's coefficients are everywhere of v's; 0: not the same. */
static int64_t ratio_of(const struct tsr_integer_points *l, uint32_t u, uint32_t v)
{
    int64_t ratio = 0;
    for (uint32_t n = 0; n < l->rows; n++) {
        int64_t a = l->row[n].by[u], b = l->row[n].by[v];
        if (l->use[n] == TSR_ROW_NONE || (a == 0 && b == 0))
            continue;
        if (a == 0 || b == 0 || a % b != 0 || (ratio && a / b != ratio))
            return 0;
        ratio = a / b;
    }
    return ratio;
}

/* Makes two variables one, v. False: they are not. */
static bool unite(struct tsr_integer_points *l, uint32_t u, uint32_t v)
{
    int64_t ratio = ratio_of(l, u, v);
    if (ratio == 0 || ratio == INT64_MIN || (ratio < 0 ? -ratio : ratio) - 1 > l->column[v].last)
        return false;
    if (ratio < 0 && !flip(l, u))
        return false;
    ratio = ratio < 0 ? -ratio : ratio;
    tsr_wide last = (tsr_wide)ratio * l->column[u].last + l->column[v].last;
    if (last > LARGEST)
        return false;
    l->column[v].last = (int64_t)last;
    l->column[u].last = 0;
    return change(l, u, 0, 0);
}

/* False: no point is left. */
static bool simplify(struct tsr_integer_points *l)
{
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        if (!tighten(l))
            return false;
        for (uint32_t u = 0; u < l->columns; u++)
            for (uint32_t v = 0; v < l->columns && is_free(l, u); v++)
                goes_on |= u != v && is_free(l, v) && unite(l, u, v);
    }
    return true;
}

/* Variable = divisor * a new one + itself. False: there is no room. */
static bool split(struct tsr_integer_points *l, uint32_t column, int64_t divisor)
{
    int64_t last = l->column[column].last;
    uint32_t quotient = l->columns, condition = l->rows;
    bool is_ragged = (last + 1) % divisor != 0;
    if (quotient == TSR_POINTS_COLUMNS || (is_ragged && condition == TSR_POINTS_ROWS))
        return false;
    l->columns++;
    l->column[quotient] = (struct tsr_points_column){last / divisor, TSR_NO_SYMBOL, false};
    l->column[column].last = divisor - 1;
    for (uint32_t n = 0; n < l->rows; n++) {
        tsr_wide by = (tsr_wide)l->row[n].by[column] * divisor;
        if (l->use[n] == TSR_ROW_NONE)
            by = 0;
        if (!is_near(by, LARGEST))
            return false;
        l->row[n].by[quotient] = (int64_t)by;
    }
    if (is_ragged) {
        l->rows++;
        l->use[condition] = TSR_ROW_CONDITION;
        l->row[condition] = (struct tsr_points_row){.constant = -last};
        l->row[condition].by[quotient] = divisor;
        l->row[condition].by[column] = 1;
    }
    return true;
}

/* Puts a row in the place of a variable that is its value. False: too large. */
static bool replace(struct tsr_integer_points *l, uint32_t column, const struct tsr_points_row *value)
{
    if (column == TSR_POINTS_COLUMNS)
        return true;
    for (uint32_t n = 0; n < l->rows; n++) {
        struct tsr_points_row *row = &l->row[n];
        int64_t by = row->by[column];
        if (l->use[n] == TSR_ROW_NONE || !by)
            continue;
        row->by[column] = 0;
        tsr_wide constant = row->constant + (tsr_wide)by * value->constant;
        if (!is_near(constant, FARTHEST))
            return false;
        row->constant = (int64_t)constant;
        for (uint32_t i = 0; i < l->columns; i++) {
            tsr_wide sum = row->by[i] + (tsr_wide)by * value->by[i];
            if (!is_near(sum, LARGEST))
                return false;
            row->by[i] = (int64_t)sum;
        }
    }
    return true;
}

/* The variable that has to become digits before a dividend can be divided; TSR_POINTS_COLUMNS: none. */
static uint32_t to_be_split(const struct tsr_integer_points *l, const struct tsr_points_row *rest, int64_t divisor)
{
    uint32_t found = TSR_POINTS_COLUMNS;
    for (uint32_t i = 0; i < l->columns; i++)
        if (rest->by[i] && divisor % rest->by[i] == 0 && l->column[i].last >= divisor / rest->by[i] &&
            (found == TSR_POINTS_COLUMNS || rest->by[i] > rest->by[found]))
            found = i;
    return found;
}

/* dividend = divisor * quotient + rest, coefficient by coefficient. */
static void halve(const struct tsr_integer_points *l, const struct tsr_points_row *dividend, int64_t divisor,
                  struct tsr_points_row *quotient, struct tsr_points_row *rest)
{
    *quotient = (struct tsr_points_row){.constant = (int64_t)tsr_wide_divide(dividend->constant, divisor)};
    *rest = (struct tsr_points_row){.constant = (int64_t)tsr_wide_modulo(dividend->constant, divisor)};
    for (uint32_t i = 0; i < l->columns; i++) {
        if (!dividend->by[i] || (!l->column[i].is_result && l->column[i].last == 0))
            continue;
        quotient->by[i] = (int64_t)tsr_wide_divide(dividend->by[i], divisor);
        rest->by[i] = (int64_t)tsr_wide_modulo(dividend->by[i], divisor);
    }
}

/*
 * Forms are divided without the multiples of the divisor that their coefficients have. With some of them put back, taken from the quotient
 * again, the variables of a dividend may be digits of one number. False: too large.
 */
static bool restore_digits(struct tsr_integer_points *l, const struct tsr_points_division *division)
{
    struct tsr_points_row *dividend = &l->row[division->dividend];
    bool done[TSR_POINTS_COLUMNS] = {false};
    tsr_wide place = 0;
    for (;;) {
        uint32_t next = TSR_POINTS_COLUMNS;
        for (uint32_t i = 0; i < l->columns; i++) {
            if (!dividend->by[i] || done[i] || !is_free(l, i))
                continue;
            bool is_next = place ? (place - dividend->by[i]) % division->divisor == 0
                                 : next == TSR_POINTS_COLUMNS || dividend->by[i] < dividend->by[next];
            next = is_next ? i : next;
        }
        if (next == TSR_POINTS_COLUMNS)
            return true;
        tsr_wide multiple = place ? (place - dividend->by[next]) / division->divisor : 0;
        for (uint32_t n = 0; n < l->rows && division->quotient != TSR_POINTS_COLUMNS; n++) {
            tsr_wide by = l->row[n].by[next] - multiple * l->row[n].by[division->quotient];
            if (l->use[n] == TSR_ROW_NONE)
                continue;
            if (!is_near(by, LARGEST))
                return false;
            l->row[n].by[next] = (int64_t)by;
        }
        dividend->by[next] += (int64_t)(multiple * division->divisor);
        done[next] = true;
        place = (tsr_wide)dividend->by[next] * (l->column[next].last + 1);
        if (!is_near(place, LARGEST))
            return false;
    }
}

/* Quotient and remainder as rows of variables. False: they are no such rows. */
static bool divide(struct tsr_integer_points *l, const struct tsr_points_division *division)
{
    struct tsr_points_row quotient, rest;
    if (has_results(l, &l->row[division->dividend]) || !restore_digits(l, division) || !simplify(l))
        return false;
    for (;;) {
        halve(l, &l->row[division->dividend], division->divisor, &quotient, &rest);
        if (end_of(l, &rest, true) < division->divisor)
            break;
        uint32_t column = to_be_split(l, &rest, division->divisor);
        if (column == TSR_POINTS_COLUMNS || !split(l, column, division->divisor / rest.by[column]))
            return false;
    }
    l->use[division->dividend] = TSR_ROW_NONE;
    return replace(l, division->quotient, &quotient) && replace(l, division->remainder, &rest);
}

static bool is_asked_for(const struct tsr_integer_points *l, uint32_t column)
{
    for (uint32_t n = 0; n < l->rows && column < TSR_POINTS_COLUMNS; n++)
        if (l->use[n] != TSR_ROW_NONE && l->row[n].by[column])
            return true;
    return false;
}

/* False: no point is left, or not all divisions can be done. */
static bool divide_all(struct tsr_integer_points *l)
{
    for (uint32_t i = l->divisions; i-- > 0;)
        if (!is_asked_for(l, l->division[i].quotient) && !is_asked_for(l, l->division[i].remainder))
            l->use[l->division[i].dividend] = TSR_ROW_NONE;
    for (uint32_t i = 0; i < l->divisions; i++)
        if (l->use[l->division[i].dividend] != TSR_ROW_NONE && (!simplify(l) || !divide(l, &l->division[i])))
            return false;
    return simplify(l);
}

/* Variables that the address does not have take a value that conditions have least against. */
static bool choose_others(struct tsr_integer_points *l)
{
    bool is_changed = false;
    for (uint32_t i = 0; i < l->columns; i++) {
        bool any = false, falls = true;
        for (uint32_t n = 0; n < l->rows; n++) {
            if (l->use[n] != TSR_ROW_CONDITION || !l->row[n].by[i])
                continue;
            any = true;
            falls &= l->row[n].by[i] < 0;
        }
        if (l->row[0].by[i] || !any)
            continue;
        is_changed = true;
        if (!fix(l, i, falls ? l->column[i].last : 0))
            return false;
    }
    return !is_changed || simplify(l);
}

static void add_piece(struct solver *s, int64_t first, struct dimension outer, int64_t width)
{
    if (s->count < s->capacity)
        s->pieces[s->count++] = (struct tsr_points_piece){first, outer.stride, outer.count, width};
}

/* The variables of the address, the least coefficients first. False: too large. */
static uint32_t dimensions_of(struct tsr_integer_points *l, struct dimension *found)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->columns; i++) {
        if (!l->row[0].by[i] || l->column[i].last == 0)
            continue;
        if (l->row[0].by[i] < 0 && !flip(l, i))
            return UINT32_MAX;
        struct dimension made = {l->row[0].by[i], l->column[i].last + 1};
        uint32_t to = count++;
        for (; to > 0 && found[to - 1].stride > made.stride; to--)
            found[to] = found[to - 1];
        found[to] = made;
    }
    return count;
}

/* One piece for each index of all dimensions but the longest. */
static void enumerate(struct solver *s, int64_t first, const struct dimension *outer, uint32_t count, int64_t width)
{
    struct dimension longest = {0, 1};
    uint32_t at = count, made = 0;
    int64_t index[TSR_POINTS_COLUMNS] = {0};
    for (uint32_t i = 0; i < count; i++)
        if (outer[i].count > longest.count) {
            longest = outer[i];
            at = i;
        }
    for (bool goes_on = true; goes_on && made < ENUMERATED; made++) {
        int64_t begin = first;
        for (uint32_t i = 0; i < count; i++)
            begin += i == at ? 0 : index[i] * outer[i].stride;
        add_piece(s, begin, longest, width);
        uint32_t digit = 0;
        while (digit < count && (digit == at || ++index[digit] == outer[digit].count))
            index[digit++] = 0;
        goes_on = digit < count;
    }
}

/* The bytes of an address without conditions. */
static void emit(struct solver *s, struct tsr_integer_points *l)
{
    struct dimension found[TSR_POINTS_COLUMNS], outer[TSR_POINTS_COLUMNS];
    uint32_t count = dimensions_of(l, found), outers = 0;
    int64_t width = s->size;
    if (count == UINT32_MAX || !is_near(end_of(l, &l->row[0], true), FARTHEST))
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct dimension each = found[i], *last = outers ? &outer[outers - 1] : NULL;
        if (!last && each.stride <= width)
            width += each.stride * (each.count - 1);
        else if (last && each.stride % last->stride == 0 && each.stride <= last->stride * last->count)
            last->count += each.stride / last->stride * (each.count - 1);
        else
            outer[outers++] = each;
    }
    enumerate(s, l->row[0].constant, outer, outers, width);
}

/* How many values of a variable, from the first on, a condition allows whatever the others are, and with the best others. */
static void allowed(const struct tsr_integer_points *l, const struct tsr_points_row *row, uint32_t column, int64_t *always,
                    int64_t *sometimes)
{
    tsr_wide by = row->by[column], last = l->column[column].last;
    tsr_wide own_high = by > 0 ? by * last : 0, own_low = by > 0 ? 0 : by * last;
    tsr_wide most = end_of(l, row, true) - own_high, least = end_of(l, row, false) - own_low;
    if (by < 0) { /* counted from the other end */
        most += by * last, least += by * last;
        by = -by;
    }
    tsr_wide worst = tsr_wide_divide(-most, by), best = tsr_wide_divide(-least, by);
    *always = (int64_t)tsr_wide_most(0, tsr_wide_least(worst, last) + 1);
    *sometimes = (int64_t)tsr_wide_most(0, tsr_wide_least(best, last) + 1);
}

struct choice {
    uint32_t column;
    int64_t always, sometimes;
    double share;
};

/* The variable of a condition that loses least when it is held to what is always allowed; `cases`: when the rest is looked at, too. */
static struct choice choose(const struct tsr_integer_points *l, const struct tsr_points_row *row, bool cases)
{
    struct choice best = {TSR_POINTS_COLUMNS, 0, 0, -1};
    for (uint32_t i = 0; i < l->columns; i++) {
        struct choice each = {.column = i};
        if (!row->by[i])
            continue;
        allowed(l, row, i, &each.always, &each.sometimes);
        each.share = (double)each.always / ((double)l->column[i].last + 1);
        if (cases && each.sometimes - each.always <= CASES)
            each.share = 2 + 1.0 / (1 + (double)(each.sometimes - each.always));
        if (each.share > best.share)
            best = each;
    }
    return best;
}

static void finish(struct solver *s, struct tsr_integer_points *l, int depth);

static void look_at_cases(struct solver *s, const struct tsr_integer_points *l, struct choice choice, int depth)
{
    char *kept = s->e->next;
    for (int64_t value = choice.always; value < choice.sometimes; value++) {
        struct tsr_integer_points *copy = tsr_scratch_take(s->e, sizeof *copy);
        tsr_points_copy(copy, l);
        if (fix(copy, choice.column, value))
            finish(s, copy, depth + 1);
        s->e->next = kept;
    }
}

static void finish(struct solver *s, struct tsr_integer_points *l, int depth)
{
    if (!simplify(l))
        return;
    for (uint32_t n = 0; n < l->rows; n++) {
        if (!choose_others(l))
            return;
        if (l->use[n] != TSR_ROW_CONDITION)
            continue;
        tsr_evaluation_spend(s->e, l->columns);
        struct choice choice = choose(l, &l->row[n], depth < CASES_DEEP);
        if (choice.column == TSR_POINTS_COLUMNS || (l->row[n].by[choice.column] < 0 && !flip(l, choice.column)))
            return;
        if (depth < CASES_DEEP && choice.sometimes - choice.always <= CASES)
            look_at_cases(s, l, choice, depth);
        if (choice.always == 0)
            return;
        l->column[choice.column].last = choice.always - 1;
        l->use[n] = TSR_ROW_NONE;
        if (!simplify(l))
            return;
        n = UINT32_MAX; /* from the beginning: others are simpler now */
    }
    emit(s, l);
}

/* Columns, rows and divisions as far as there are any: few of them, mostly. */
void tsr_points_copy(struct tsr_integer_points *to, const struct tsr_integer_points *from)
{
    to->columns = from->columns;
    to->rows = from->rows;
    to->divisions = from->divisions;
    __builtin_memcpy(to->column, from->column, from->columns * sizeof from->column[0]);
    __builtin_memcpy(to->use, from->use, from->rows * sizeof from->use[0]);
    __builtin_memcpy(to->row, from->row, from->rows * sizeof from->row[0]);
    __builtin_memcpy(to->division, from->division, from->divisions * sizeof from->division[0]);
}

/* Pieces of `size` bytes at every address; all of them, or fewer. */
uint32_t tsr_points_solve(struct tsr_evaluation *e, struct tsr_integer_points *system, int64_t size,
                          struct tsr_points_piece *pieces, uint32_t capacity)
{
    struct solver s = {e, size, pieces, capacity, 0};
    tsr_evaluation_spend(e, system->rows + system->columns);
    if (divide_all(system))
        finish(&s, system, 0);
    return s.count;
}
