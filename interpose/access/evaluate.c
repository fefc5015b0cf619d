/*
 * Values of nodes as forms, and what holds under path conditions. Sound by construction: a form is congruent to the machine's value; where an
 * instruction looks at the number itself, the form is viewed as the width and sign it has there, which needs proof that it lies in
 * between, or gives a new symbol.
 */
#include "access/evaluation.h"

static const struct tsr_facts nowhere; /* in the table of conditions: the launch never gets there */

tsr_wide tsr_limit_low(unsigned width, bool is_signed)
{
    return is_signed ? -((tsr_wide)1 << (width - 1)) : 0;
}

tsr_wide tsr_limit_high(unsigned width, bool is_signed)
{
    return ((tsr_wide)1 << (width - is_signed)) - 1;
}

/* A new symbol for a node of which nothing is known but its width. */
static const struct tsr_form *opaque(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    struct tsr_symbol symbol = tsr_symbol_new(-TSR_INFINITE, TSR_INFINITE, e->template->blocks[node->block]);
    bool has_width = node->op == TSR_OP_LOADED || node->op == TSR_OP_OPAQUE || node->op == TSR_OP_PARAMETER;
    if (has_width && node->width && node->width <= 64) {
        symbol.low = tsr_limit_low(node->width, tsr_node_is_signed(node));
        symbol.high = tsr_limit_high(node->width, tsr_node_is_signed(node));
    }
    symbol.loaded = node->op == TSR_OP_LOADED;
    return tsr_symbol_add(e, &symbol);
}

/* The one symbol of a parameter or variable. */
static const struct tsr_form *named(struct tsr_evaluation *e, const struct tsr_symbol *symbol)
{
    struct tsr_named *each = e->named;
    while (each && (each->slot != symbol->slot || each->variable != symbol->variable))
        each = each->next;
    if (!each) {
        each = tsr_scratch_take(e, sizeof *each);
        *each = (struct tsr_named){e->named, symbol->slot, symbol->variable, tsr_symbol_add(e, symbol)};
        e->named = each;
    }
    return each->form;
}

static const struct tsr_form *parameter(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    unsigned size = node->width / 8u;
    if (node->number + size > e->launch->parameter_bytes)
        return opaque(e, node);
    uint64_t bits = 0;
    __builtin_memcpy(&bits, (const char *)e->launch->parameters + node->number, size);
    tsr_wide value = tsr_node_is_signed(node) && size ? tsr_wide_wrap(bits, 8 * size) : (tsr_wide)bits;
    if (size < 8) {
        e->seen[e->inputs->of_node[node - e->template->nodes]].bits = UINT64_MAX;
        return tsr_form_number(e, value);
    }
    struct tsr_symbol symbol = tsr_symbol_new(value, value, 0);
    symbol.slot = node->number;
    symbol.input = e->inputs->of_node[node - e->template->nodes];
    return named(e, &symbol);
}

static const struct tsr_form *lane(struct tsr_evaluation *e)
{
    const uint32_t *block = e->launch->block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    struct tsr_symbol symbol = tsr_symbol_new(0, threads > 32 ? 31 : threads - 1, 0);
    symbol.mask = 31;
    return tsr_symbol_add(e, &symbol);
}

/* Thread and block indices are symbols that all who ask share. */
static const struct tsr_form *special(struct tsr_evaluation *e, unsigned code)
{
    if (code >= TSR_SPECIAL_OTHER) {
        uint32_t loops = e->template->header->loops;
        struct tsr_symbol any = tsr_symbol_new(-TSR_INFINITE, TSR_INFINITE, loops > 63 ? ~0ull : (1ull << loops) - 1);
        return tsr_symbol_add(e, &any);
    }
    if (e->special[code])
        return e->special[code];
    const uint32_t *block = e->launch->block, *grid = e->launch->grid;
    const struct tsr_form *form;
    if (code == TSR_SPECIAL_LANE) {
        bool is_row = block[1] == 1 && block[2] == 1;
        form = is_row ? tsr_divide_remainder(e, special(e, TSR_SPECIAL_TID), 32) : lane(e);
        if (is_row)
            return form; /* what is known of it may be that of a trial */
    } else {
        uint32_t size = (code < TSR_SPECIAL_CTAID ? block : grid)[code % 3], axis = code % 3;
        bool is_size = code / 3 % 2 == 1, is_part = code / 3 == TSR_SPECIAL_CTAID / 3;
        struct tsr_symbol index = tsr_symbol_new(0, is_part ? e->part.last[axis] - e->part.first[axis] : size - 1, 0);
        form = is_size ? tsr_form_number(e, size) : tsr_symbol_add(e, &index);
        if (is_part)
            form = tsr_form_moved(e, form, e->part.first[axis]);
    }
    e->special[code] = form;
    return form;
}

static const struct tsr_form *variable(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    uint32_t private = e->template->symbols[node->symbol].private;
    uint64_t address = e->launch->symbols ? e->launch->symbols[node->symbol] : 0;
    struct tsr_symbol symbol = tsr_symbol_new(address, address, 0);
    if (!address)
        symbol.high = tsr_limit_high(private == 1 ? 32 : 64, false);
    symbol.variable = (int32_t)node->symbol;
    return named(e, &symbol);
}

/* What a loop changes in ways that are not known, unless it goes round no more than once. */
static const struct tsr_form *havoc(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    if (node->count && tsr_form_high(e, tsr_loop_induction(e, (uint32_t)node->number)) == 0)
        return tsr_node_value(e, tsr_node_operand(e, node, 0));
    struct tsr_symbol symbol = tsr_symbol_new(-TSR_INFINITE, TSR_INFINITE, e->template->loops[node->number].within);
    symbol.loaded = node->flags & TSR_NODE_LOADED;
    return tsr_symbol_add(e, &symbol);
}

static const struct tsr_form *compute(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    switch (node->op) {
    case TSR_OP_NUMBER:
        return tsr_form_number(e, node->flags & TSR_NODE_UNSIGNED64 ? (tsr_wide)(uint64_t)node->number : node->number);
    case TSR_OP_PARAMETER:
        return parameter(e, node);
    case TSR_OP_SPECIAL:
        return special(e, node->code);
    case TSR_OP_SYMBOL:
        return variable(e, node);
    case TSR_OP_LOOP:
        return tsr_loop_value(e, node);
    case TSR_OP_HAVOC:
        return havoc(e, node);
    case TSR_OP_INDUCTION:
        return tsr_loop_induction(e, (uint32_t)node->number);
    case TSR_OP_AND:
    case TSR_OP_OR:
    case TSR_OP_XOR:
    case TSR_OP_EXTRACT:
    case TSR_OP_PACK:
        return tsr_bits_value(e, node);
    case TSR_OP_MIN:
    case TSR_OP_MAX:
    case TSR_OP_SELECT:
    case TSR_OP_PHI:
        return tsr_choice_value(e, node);
    case TSR_OP_ELEMENT:
        return tsr_element_value(e, node);
    default:
        return node->op >= TSR_OP_ADD && node->op < TSR_OP_PHI ? tsr_arithmetic_value(e, node) : opaque(e, node);
    }
}

static void note(struct tsr_evaluation *e, struct tsr_undo **list, uint32_t index)
{
    struct tsr_undo *undo = tsr_scratch_take(e, sizeof *undo);
    *undo = (struct tsr_undo){*list, index};
    *list = undo;
}

/* The form of a node. What is found while a loop is on trial is forgotten afterwards. */
const struct tsr_form *tsr_node_value(struct tsr_evaluation *e, uint32_t index)
{
    const struct tsr_access_node *node = &e->template->nodes[index];
    if (e->values[index])
        return e->values[index];
    if (e->active[index] == e->trial_depth + 1)
        return opaque(e, node);
    if (++e->depth > TSR_DEPTH)
        tsr_evaluation_leave(e);
    tsr_evaluation_spend(e, 2);
    uint8_t outer = e->active[index];
    e->active[index] = (uint8_t)(e->trial_depth + 1);
    const struct tsr_form *form = compute(e, node);
    e->active[index] = outer;
    e->depth--;
    e->values[index] = form;
    if (e->trial)
        note(e, &e->trial->values, index);
    return form;
}

void tsr_trial_begin(struct tsr_evaluation *e, struct tsr_trial *trial, uint32_t symbol, bool assume)
{
    if (++e->trial_depth == UINT8_MAX)
        tsr_evaluation_leave(e);
    *trial = (struct tsr_trial){.outer = e->trial, .symbol = symbol, .assume = assume, .divisions = e->divisions};
    e->trial = trial;
}

void tsr_trial_end(struct tsr_evaluation *e)
{
    for (struct tsr_undo *undo = e->trial->values; undo; undo = undo->older)
        e->values[undo->index] = NULL;
    for (struct tsr_undo *undo = e->trial->facts; undo; undo = undo->older)
        e->facts[undo->index] = NULL;
    e->divisions = e->trial->divisions;
    tsr_phis_forget(e);
    e->trial = e->trial->outer;
    e->trial_depth--;
}

/* Nothing is kept of what was taken to hold while loops were on trial, or predicates were under evaluation. */
void tsr_evaluation_undo(struct tsr_evaluation *e)
{
    for (; e->under_evaluation; e->under_evaluation = e->under_evaluation->older)
        e->facts[e->under_evaluation->index] = NULL;
    if (e->trial)
        __builtin_memset(e->inductions, 0, e->template->header->loops * sizeof e->inductions[0]);
    for (; e->trial; tsr_trial_end(e)) {
        struct tsr_symbol *k = tsr_symbol_at(e, e->trial->symbol);
        k->high = TSR_INFINITE;
        k->facts = k->last_fact = NULL;
    }
}

/* Numbers. */

const struct tsr_form *tsr_node_viewed(struct tsr_evaluation *e, uint32_t node, unsigned width, bool is_signed,
                                       uint32_t condition)
{
    return tsr_form_viewed(e, tsr_node_value(e, node), width, is_signed, condition);
}

/* The form moved by a multiple of 2^width so that it lies between the limits; NULL: it may lie on both sides of one. */
static const struct tsr_form *fitted(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide bottom, tsr_wide top,
                                     unsigned width, bool is_signed)
{
    if (!tsr_wide_fits(bottom) || !tsr_wide_fits(top))
        return NULL;
    tsr_wide turn = (tsr_wide)1 << width;
    tsr_wide distance = tsr_wide_divide(bottom - tsr_limit_low(width, is_signed), turn) * turn;
    return top - distance <= tsr_limit_high(width, is_signed) ? tsr_form_moved(e, form, -distance) : NULL;
}

static const struct tsr_form *known_view(const struct tsr_evaluation *e, const struct tsr_form *form, unsigned width,
                                         bool is_signed, uint64_t hash)
{
    for (struct tsr_view *each = e->views[hash % TSR_VIEW_BUCKETS]; each; each = each->next)
        if (each->hash == hash && each->width == width && each->is_signed == is_signed && tsr_form_equal(each->form, form))
            return each->result;
    return NULL;
}

static const struct tsr_form *remember_view(struct tsr_evaluation *e, const struct tsr_form *form, unsigned width,
                                            bool is_signed, uint64_t hash, const struct tsr_form *result)
{
    struct tsr_view *view = tsr_scratch_take(e, sizeof *view);
    struct tsr_view **bucket = &e->views[hash % TSR_VIEW_BUCKETS];
    *view = (struct tsr_view){*bucket, form, result, hash, width, is_signed};
    *bucket = view;
    return result;
}

/* A form that equals the number that a machine sees in a value of that width and sign. */
const struct tsr_form *tsr_form_viewed(struct tsr_evaluation *e, const struct tsr_form *form, unsigned width, bool is_signed,
                                       uint32_t condition)
{
    tsr_wide low = tsr_limit_low(width, is_signed), high = tsr_limit_high(width, is_signed);
    tsr_wide bottom = tsr_form_low(e, form), top = tsr_form_high(e, form);
    if (low <= bottom && top <= high)
        return form;
    uint64_t hash = tsr_form_hash(form);
    const struct tsr_form *found = known_view(e, form, width, is_signed, hash);
    if (found)
        return found;
    found = fitted(e, form, bottom, top, width, is_signed);
    if (found)
        return remember_view(e, form, width, is_signed, hash, found);
    const struct tsr_facts *facts = tsr_condition_facts(e, condition);
    if (facts) {
        bottom = tsr_bound_lower(e, form, facts);
        top = tsr_bound_upper(e, form, facts);
        found = fitted(e, form, bottom, top, width, is_signed);
        if (found)
            return found; /* holds in this condition only */
    }
    if (tsr_loop_assumed(e, form, low, high))
        return form;
    struct tsr_symbol symbol = tsr_symbol_new(low, high, tsr_form_loops(e, form));
    symbol.loaded = tsr_form_loaded(e, form);
    return remember_view(e, form, width, is_signed, hash, tsr_symbol_add(e, &symbol));
}

/* Conditions. */

/* Whether a fact cannot hold. */
bool tsr_facts_impossible(struct tsr_evaluation *e, const struct tsr_facts *found, const struct tsr_facts *before)
{
    for (uint32_t i = 0; i < found->count; i++)
        if (tsr_bound_lower(e, found->items[i], before) > 0)
            return true;
    return false;
}

/* Whether whatever holds in one condition holds in the other. */
bool tsr_condition_is_around(const struct tsr_evaluation *e, uint32_t outer, uint32_t condition)
{
    if (condition == TSR_NO_CONDITION)
        return true;
    while (condition && condition != outer)
        condition = e->template->conditions[condition].parent;
    return condition == outer;
}

bool tsr_condition_is_never(const struct tsr_evaluation *e, uint32_t condition)
{
    return e->facts[condition] == &nowhere;
}

/* What holds in a condition. */
const struct tsr_facts *tsr_condition_facts(struct tsr_evaluation *e, uint32_t condition)
{
    const struct tsr_facts *known = e->facts[condition];
    if (known)
        return known == &nowhere ? NULL : known;
    const struct tsr_access_condition *entry = &e->template->conditions[condition];
    if (++e->depth > TSR_DEPTH)
        tsr_evaluation_leave(e);
    const struct tsr_facts *before = tsr_condition_facts(e, entry->parent);
    if (e->trial && (!before || entry->predicate >= 0))
        note(e, &e->trial->facts, condition);
    if (!before) {
        e->facts[condition] = &nowhere;
    } else if (entry->predicate >= 0) {
        struct tsr_undo under_evaluation = {e->under_evaluation, condition};
        e->under_evaluation = &under_evaluation;
        e->facts[condition] = before; /* while the predicate is under evaluation */
        const struct tsr_facts *found = tsr_predicate_facts(e, (uint32_t)entry->predicate, entry->truth);
        bool is_possible = found && !tsr_facts_impossible(e, found, before);
        before = !is_possible ? NULL : e->coarse ? before : tsr_facts_joined(e, before, found);
        e->facts[condition] = before ? before : &nowhere;
        e->under_evaluation = under_evaluation.older;
    }
    e->depth--;
    return before;
}
