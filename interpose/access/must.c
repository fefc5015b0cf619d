/*
 * What a store must write in every execution of a launch: its address at all threads, blocks and iterations for which the conditions hold that
 * decide whether it runs, as a system of integer points (points.c). A condition may be replaced by a stronger one, never by a weaker one.
 *
 * Variables are thread and block indices, each free in its box, and the iterations of loops around the store. Quotients and remainders are
 * taken apart by the system. An address or a condition with anything else, a loaded value above all, has no system; nor are bounds used that
 * only say what may be.
 *
 * That a form equals the machine's number holds where the machine gets to; by induction along the conditions, and over the iterations, a
 * point that satisfies all of them is one that the machine gets to. A loop goes on after each of its first k iterations when that holds
 * after the last of them and the condition does not come to hold later again: its coefficient of k is not negative.
 */
#include "access/evaluation.h"

#define LARGEST ((tsr_wide)1 << 45)
#define NO_LOOP UINT32_MAX
#define SIDES_DEEP 4
#define WARP 32u

struct tsr_must {
    struct tsr_evaluation *e;
    struct tsr_integer_points *l;
    const struct tsr_division *division[TSR_POINTS_COLUMNS];
    uint32_t loop[TSR_POINTS_COLUMNS]; /* that each column counts; NO_LOOP */
};

static uint32_t new_column(struct tsr_must *c, int64_t last, uint32_t symbol, bool is_result)
{
    uint32_t column = c->l->columns;
    if (column == TSR_POINTS_COLUMNS)
        return column;
    c->l->column[column] = (struct tsr_points_column){last, symbol, is_result};
    c->loop[column] = NO_LOOP;
    c->l->columns++;
    return column;
}

static uint32_t new_row(struct tsr_must *c, enum tsr_points_use use)
{
    uint32_t row = c->l->rows;
    if (row < TSR_POINTS_ROWS) {
        c->l->row[row] = (struct tsr_points_row){0};
        c->l->use[row] = use;
        c->l->rows++;
    }
    return row;
}

static bool is_index(const struct tsr_evaluation *e, uint32_t symbol)
{
    static const uint8_t codes[] = {TSR_SPECIAL_TID,   TSR_SPECIAL_TID + 1,   TSR_SPECIAL_TID + 2,
                                    TSR_SPECIAL_CTAID, TSR_SPECIAL_CTAID + 1, TSR_SPECIAL_CTAID + 2};
    for (uint32_t i = 0; i < sizeof codes; i++) {
        const struct tsr_form *form = e->special[codes[i]];
        if (form && form->count == 1 && form->terms[0].symbol == symbol)
            return true;
    }
    return false;
}

/* The loop whose iterations a symbol counts; NO_LOOP. */
static uint32_t loop_of(const struct tsr_evaluation *e, uint32_t symbol)
{
    for (uint32_t loop = 0; loop < e->template->header->loops && loop < 63; loop++)
        if (e->inductions[loop] && e->inductions[loop]->count == 1 && e->inductions[loop]->terms[0].symbol == symbol)
            return loop;
    return NO_LOOP;
}

static bool is_only(const struct tsr_form *form, uint32_t symbol)
{
    return form->count == 1 && form->constant == 0 && form->terms[0].coefficient == 1 && form->terms[0].symbol == symbol;
}

static bool add_form(struct tsr_must *c, uint32_t row, const struct tsr_form *form, uint64_t loops);

/* The column of a quotient or remainder; TSR_POINTS_COLUMNS: it is none, or cannot be put down. */
static uint32_t divided(struct tsr_must *c, uint32_t symbol, uint64_t loops)
{
    const struct tsr_division *of = c->e->divisions;
    while (of && !is_only(of->quotient, symbol) && !is_only(of->remainder, symbol))
        of = of->older;
    if (!of || of->divisor < 1 || of->divisor > LARGEST)
        return TSR_POINTS_COLUMNS;
    uint32_t number = 0;
    while (number < c->l->divisions && c->division[number] != of)
        number++;
    struct tsr_points_division *division = &c->l->division[number];
    if (number == c->l->divisions) {
        uint32_t row = new_row(c, TSR_ROW_DIVIDEND);
        if (number == TSR_POINTS_COLUMNS || row == TSR_POINTS_ROWS || !add_form(c, row, of->form, loops))
            return TSR_POINTS_COLUMNS;
        number = c->l->divisions; /* those that its dividend needs come first */
        if (number == TSR_POINTS_COLUMNS)
            return number;
        c->l->divisions++;
        c->division[number] = of;
        division = &c->l->division[number];
        *division = (struct tsr_points_division){(int64_t)of->divisor, TSR_POINTS_COLUMNS, TSR_POINTS_COLUMNS, row};
    }
    uint32_t column = new_column(c, 0, symbol, true);
    *(is_only(of->quotient, symbol) ? &division->quotient : &division->remainder) = column;
    return column;
}

/* TSR_POINTS_COLUMNS: none. `loops`: those whose iterations may be distinguished. */
static uint32_t column_of(struct tsr_must *c, uint32_t symbol, uint64_t loops)
{
    const struct tsr_symbol *of = tsr_symbol_at(c->e, symbol);
    uint32_t column = 0, loop;
    while (column < c->l->columns && c->l->column[column].symbol != symbol)
        column++;
    loop = column < c->l->columns ? c->loop[column] : loop_of(c->e, symbol);
    if (loop != NO_LOOP && !(loops >> loop & 1))
        return TSR_POINTS_COLUMNS;
    if (column < c->l->columns)
        return column;
    if (loop == NO_LOOP && !is_index(c->e, symbol))
        return divided(c, symbol, loops);
    if (of->low != 0)
        return TSR_POINTS_COLUMNS;
    column = new_column(c, (int64_t)tsr_wide_least(of->high, LARGEST), symbol, false);
    if (column < TSR_POINTS_COLUMNS)
        c->loop[column] = loop;
    return column;
}

static bool add_constant(struct tsr_points_row *row, tsr_wide constant)
{
    tsr_wide sum = row->constant + constant;
    if (sum > LARGEST || sum < -LARGEST)
        return false;
    row->constant = (int64_t)sum;
    return true;
}

/* Adds a form to a row. False: it cannot be put down. Addresses count modulo 2^64. */
static bool add_form(struct tsr_must *c, uint32_t row, const struct tsr_form *form, uint64_t loops)
{
    bool is_address = row == 0;
    tsr_evaluation_spend(c->e, 1 + form->count);
    if (!add_constant(&c->l->row[row], is_address ? tsr_wide_wrap(form->constant, 64) : form->constant))
        return false;
    for (uint32_t i = 0; i < form->count; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(c->e, form->terms[i].symbol);
        tsr_wide by = form->terms[i].coefficient, product;
        by = is_address ? tsr_wide_wrap(by, 64) : by;
        if (symbol->low == symbol->high) {
            symbol->seen = true;
            if (!tsr_wide_fits(symbol->low) || !tsr_wide_times(by, symbol->low, &product) ||
                !add_constant(&c->l->row[row], is_address ? tsr_wide_wrap(product, 64) : product))
                return false;
            continue;
        }
        uint32_t column = column_of(c, form->terms[i].symbol, loops);
        tsr_wide sum = column < TSR_POINTS_COLUMNS ? c->l->row[row].by[column] + by : LARGEST + 1;
        if (sum > LARGEST || sum < -LARGEST)
            return false;
        c->l->row[row].by[column] = (int64_t)sum;
    }
    return true;
}

static bool varies(const struct tsr_evaluation *e, const struct tsr_form *form, uint32_t loop)
{
    const struct tsr_form *k = e->inductions[loop];
    for (uint32_t i = 0; i < form->count; i++)
        if (form->terms[i].symbol != k->terms[0].symbol && tsr_symbol_at(e, form->terms[i].symbol)->loops >> loop & 1)
            return true;
    return false;
}

/* A form that has to be at most 0; with a loop, after each iteration that has ended. False: it cannot be put down. */
static bool add_condition(struct tsr_must *c, const struct tsr_form *form, uint32_t loop, uint64_t loops, int depth)
{
    struct tsr_evaluation *e = c->e;
    for (uint32_t i = 0; i < form->count && depth < SIDES_DEEP; i++) {
        const struct tsr_symbol *symbol = tsr_symbol_at(e, form->terms[i].symbol);
        if (!symbol->sides[0] || symbol->low == symbol->high)
            continue;
        const struct tsr_form *rest = tsr_form_without(e, form, form->terms[i].symbol);
        for (int side = 0; side < 2; side++) {
            const struct tsr_form *each = tsr_form_plus(e, rest, symbol->sides[side], form->terms[i].coefficient);
            if (!add_condition(c, each, loop, loops, depth + 1))
                return false;
        }
        return true;
    }
    if (loop != NO_LOOP) {
        tsr_wide by = tsr_form_coefficient(form, e->inductions[loop]->terms[0].symbol);
        if (by < 0 || varies(e, form, loop))
            return false;
        form = tsr_form_moved(e, form, -by);
    }
    if (tsr_form_low(e, form) > 0) /* it never holds: the other side of an "or" may */
        return false;
    if (form->count == 0)
        return true;
    uint32_t row = new_row(c, TSR_ROW_CONDITION);
    return row < TSR_POINTS_ROWS && add_form(c, row, form, loops);
}

/* Two values that differ: which is less is known, or comes to be so in a loop. */
static bool require_different(struct tsr_must *c, const struct tsr_form *difference, uint32_t loop, uint64_t loops)
{
    struct tsr_evaluation *e = c->e;
    tsr_wide low = tsr_form_low(e, difference), high = tsr_form_high(e, difference), by = 0;
    if (low > 0 || high < 0)
        return true;
    if (loop != NO_LOOP)
        by = tsr_form_coefficient(difference, e->inductions[loop]->terms[0].symbol);
    if (low != 0 && high != 0 && by == 0)
        return false;
    bool is_less = high == 0 || (low != 0 && by > 0);
    return add_condition(
        c, tsr_form_apart(e, is_less ? difference : &tsr_form_zero, is_less ? &tsr_form_zero : difference, false, 1), loop,
        loops, 0);
}

static bool require_compared(struct tsr_must *c, const struct tsr_access_node *node, bool truth, uint32_t loop, uint64_t loops)
{
    struct tsr_evaluation *e = c->e;
    const struct tsr_form *sides[2];
    uint8_t code = truth ? node->code : tsr_compare_opposite[node->code];
    bool equal;
    if (tsr_predicate_is_null_test(e, node, &equal))
        return equal == (code == TSR_COMPARE_EQ);
    tsr_predicate_sides(e, node, sides);
    loops &= e->template->blocks[node->block];
    if (code == TSR_COMPARE_NE)
        return require_different(c, tsr_form_apart(e, sides[0], sides[1], false, 0), loop, loops);
    bool is_made = true;
    if (code == TSR_COMPARE_LT || code == TSR_COMPARE_LE || code == TSR_COMPARE_EQ)
        is_made = add_condition(c, tsr_form_apart(e, sides[0], sides[1], false, code == TSR_COMPARE_LT), loop, loops, 0);
    if (is_made && (code == TSR_COMPARE_GT || code == TSR_COMPARE_GE || code == TSR_COMPARE_EQ))
        is_made = add_condition(c, tsr_form_apart(e, sides[0], sides[1], true, code == TSR_COMPARE_GT), loop, loops, 0);
    return is_made;
}

/* What was put down since is taken away again. */
static void go_back(struct tsr_must *c, uint32_t columns, uint32_t rows, uint32_t divisions)
{
    for (uint32_t i = 0; i < divisions; i++) {
        struct tsr_points_division *each = &c->l->division[i];
        each->quotient = each->quotient < columns ? each->quotient : TSR_POINTS_COLUMNS;
        each->remainder = each->remainder < columns ? each->remainder : TSR_POINTS_COLUMNS;
    }
    c->l->columns = columns;
    c->l->rows = rows;
    c->l->divisions = divisions;
}

/* Conditions under which a predicate has a value. False: none can be put down. */
static bool require(struct tsr_must *c, uint32_t index, bool truth, uint32_t loop, uint64_t loops)
{
    struct tsr_evaluation *e = c->e;
    const struct tsr_access_node *node = &e->template->nodes[index];
    tsr_evaluation_spend(e, 1);
    for (; node->op == TSR_OP_OPPOSITE; truth = !truth) {
        tsr_evaluation_spend(e, 1);
        node = &e->template->nodes[tsr_node_operand(e, node, 0)];
    }
    if (node->op == TSR_OP_NUMBER)
        return (node->number != 0) == truth;
    if (node->op == TSR_OP_COMPARE && node->code < TSR_COMPARE_OTHER)
        return require_compared(c, node, truth, loop, loops);
    if (node->op != TSR_OP_BOTH && node->op != TSR_OP_EITHER)
        return false;
    if (++e->depth > TSR_DEPTH)
        tsr_evaluation_leave(e);
    uint32_t columns = c->l->columns, rows = c->l->rows, divisions = c->l->divisions;
    bool needs_both = (node->op == TSR_OP_BOTH) == truth, first = require(c, tsr_node_operand(e, node, 0), truth, loop, loops);
    if (!first)
        go_back(c, columns, rows, divisions);
    bool is_made = needs_both ? first && require(c, tsr_node_operand(e, node, 1), truth, loop, loops)
                              : first || require(c, tsr_node_operand(e, node, 1), truth, loop, loops);
    e->depth--;
    return is_made;
}

/* The conditions from a condition up to one above it. */
static bool require_condition(struct tsr_must *c, uint32_t condition, uint32_t above, uint32_t loop, uint64_t loops)
{
    const struct tsr_access_condition *conditions = c->e->template->conditions;
    for (; condition != above && condition != 0; condition = conditions[condition].parent) {
        const struct tsr_access_condition *each = &conditions[condition];
        tsr_evaluation_spend(c->e, 1);
        if (each->predicate >= 0 && !each->certain && !require(c, (uint32_t)each->predicate, each->truth, loop, loops))
            return false;
    }
    return condition == above;
}

/* How often loops run that the address or a condition counts. One of which that is not known runs once. */
static bool require_loops(struct tsr_must *c)
{
    const struct tsr_sections *template = c->e->template;
    for (uint32_t column = 0; column < c->l->columns; column++) {
        uint32_t loop = c->loop[column];
        if (loop == NO_LOOP)
            continue;
        const struct tsr_access_loop *place = &template->loops[loop];
        uint32_t columns = c->l->columns, rows = c->l->rows, divisions = c->l->divisions;
        if (place->must == TSR_ACCESS_NEVER)
            return false;
        if (place->again != TSR_ACCESS_NEVER && require_condition(c, place->again, place->must, loop, place->within))
            continue;
        go_back(c, columns, rows, divisions);
        c->l->column[column].last = 0;
    }
    return true;
}

static bool is_thread(const struct tsr_evaluation *e, uint32_t symbol, int axis)
{
    const struct tsr_form *form = e->special[TSR_SPECIAL_TID + axis];
    return form && form->count == 1 && form->terms[0].symbol == symbol;
}

/* Whether a column is the same in all threads of a warp, where rows of threads are whole warps. */
static bool is_uniform(const struct tsr_must *c, uint32_t column)
{
    const struct tsr_integer_points *l = c->l;
    if (!l->column[column].is_result)
        return !is_thread(c->e, l->column[column].symbol, 0);
    for (uint32_t i = 0; i < l->divisions; i++) {
        const struct tsr_points_division *each = &l->division[i];
        bool is_from = each->quotient == column || each->remainder == column;
        for (uint32_t n = 0; is_from && n < l->columns; n++)
            if (l->row[each->dividend].by[n] && !is_uniform(c, n))
                return each->quotient == column && each->divisor % WARP == 0;
    }
    return true;
}

/* Whether warps store as a whole, each to one address: a matrix is stored by all threads of a warp together. */
static bool stores_matrices(const struct tsr_must *c)
{
    if (c->e->launch->block[0] % WARP != 0)
        return false;
    for (uint32_t row = 0; row < c->l->rows; row++)
        for (uint32_t i = 0; i < c->l->columns && c->l->use[row] != TSR_ROW_DIVIDEND; i++)
            if (c->l->row[row].by[i] && !is_uniform(c, i))
                return false;
    return true;
}

/* The rows of a matrix. */
static bool add_rows(struct tsr_must *c, const struct tsr_access_access *access)
{
    tsr_wide pitch;
    if (access->rows <= 1)
        return true;
    uint32_t column = new_column(c, access->rows - 1, TSR_NO_SYMBOL, false);
    if (!tsr_form_value(c->e, tsr_node_value(c->e, (uint32_t)access->pitch), &pitch) || column == TSR_POINTS_COLUMNS)
        return false;
    pitch = tsr_wide_wrap(pitch, 64);
    c->l->row[0].by[column] = (int64_t)pitch;
    return pitch >= -LARGEST && pitch <= LARGEST;
}

struct tsr_must *tsr_must_start(struct tsr_evaluation *e)
{
    struct tsr_must *c = tsr_scratch_take(e, sizeof *c);
    c->e = e;
    return c;
}

static bool add_digits(struct tsr_must *c, const struct tsr_points_digit *digits, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t column = new_column(c, digits[i].count - 1, TSR_NO_SYMBOL, false);
        if (column == TSR_POINTS_COLUMNS || digits[i].stride > LARGEST)
            return false;
        c->l->row[0].by[column] = digits[i].stride;
    }
    return true;
}

/*
 * Puts down where stores with a condition in which they run for certain write, relative to their base, in one system with others that are
 * like them. `offset`: the address without base and distance; `first`: that of the first one; `size`: bytes of each; `digits`: where the
 * others are. False: it cannot be put down.
 */
bool tsr_must_write(struct tsr_must *c, const struct tsr_access_access *access, const struct tsr_form *offset, int64_t first,
                    const struct tsr_points_digit *digits, uint32_t count, struct tsr_integer_points *system)
{
    c->l = system;
    c->l->columns = c->l->rows = c->l->divisions = 0;
    new_row(c, TSR_ROW_ADDRESS);
    return add_constant(&c->l->row[0], first) && add_form(c, 0, offset, access->loops) && add_rows(c, access) &&
           add_digits(c, digits, count) && require_condition(c, access->must, 0, NO_LOOP, access->loops) && require_loops(c) &&
           (access->rows <= 1 || stores_matrices(c));
}
