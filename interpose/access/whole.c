/*
 * The range of an access when the budget of an evaluation is used up: the whole allocation of the pointer with which its address begins.
 *
 * The template lists the pointers with which an address may begin, for any launch (ptxtools/access/bases.py). If that is not exactly one pointer,
 * the address' nodes are walked: a path that this launch does not take does not count, nor does a parameter that points nowhere.
 */
#include "access/evaluation.h"

#define NEVER UINT8_MAX /* `least` of an unreachable node */

/* Pointers in the sums that make a node's value: how many at least and at most, and which. */
struct pointers {
    uint8_t least, most;
    bool is_known, is_active, is_cut; /* cut: the walk has come around a loop */
    bool is_lost;                     /* it may have been loaded from memory, or there are too many */
    uint16_t bases;                   /* by their places in the list */
};

struct tsr_walk {
    struct tsr_evaluation *e;
    struct pointers *nodes;
    uint32_t list[TSR_WALK_BASES], listed, cuts;
};

static struct pointers walked(struct tsr_walk *walk, uint32_t index);

static struct pointers nothing(void)
{
    return (struct pointers){.least = 0};
}

static struct pointers lost(void)
{
    return (struct pointers){.is_lost = true};
}

static struct pointers pointer(struct tsr_walk *walk, uint32_t base)
{
    uint32_t i = 0;
    while (i < walk->listed && walk->list[i] != base)
        i++;
    if (i == TSR_WALK_BASES)
        return lost();
    if (i == walk->listed)
        walk->list[walk->listed++] = base;
    return (struct pointers){.least = 1, .most = 1, .bases = (uint16_t)(1u << i)};
}

/* A parameter that points into an allocation; any other is a number. */
static struct pointers parameter(struct tsr_walk *walk, uint32_t index)
{
    const struct tsr_access_node *node = &walk->e->template->nodes[index];
    if (node->width != 64 || !tsr_input_is_allocated(walk->e, walk->e->inputs->of_node[index]))
        return nothing();
    return pointer(walk, (uint32_t)node->number);
}

static bool is_never(struct pointers of)
{
    return of.least == NEVER;
}

static struct pointers either(struct pointers a, struct pointers b)
{
    if (is_never(a) || is_never(b))
        return is_never(a) ? b : a;
    return (struct pointers){.least = a.least < b.least ? a.least : b.least,
                             .most = a.most > b.most ? a.most : b.most,
                             .is_lost = a.is_lost || b.is_lost,
                             .bases = a.bases | b.bases};
}

static struct pointers added(struct pointers a, struct pointers b)
{
    if (is_never(a) || is_never(b))
        return is_never(a) ? a : b;
    if (a.most + b.most > 2) /* more than can be distinguished */
        return lost();
    return (struct pointers){.least = (uint8_t)(a.least + b.least),
                             .most = (uint8_t)(a.most + b.most),
                             .is_lost = a.is_lost || b.is_lost,
                             .bases = a.bases | b.bases};
}

static bool are_alike(struct pointers a, struct pointers b)
{
    return a.least == b.least && a.most == b.most && a.bases == b.bases && !a.is_lost && !b.is_lost;
}

/* Whether this launch may take an alternative of a phi or select; evaluated only when it matters. */
static bool is_taken(struct tsr_walk *walk, const struct tsr_access_node *node, uint32_t alternative)
{
    struct tsr_evaluation *e = walk->e;
    if (node->op == TSR_OP_PHI)
        return tsr_condition_facts(e, tsr_node_operand(e, node, node->count + alternative)) != NULL;
    return node->op != TSR_OP_SELECT || tsr_predicate_facts(e, tsr_node_operand(e, node, 0), alternative == 1) != NULL;
}

static struct pointers chosen(struct tsr_walk *walk, const struct tsr_access_node *node)
{
    struct pointers all = {.least = NEVER}, taken = all, each;
    uint32_t first = node->op == TSR_OP_SELECT || node->op == TSR_OP_ELEMENT, end = node->op == TSR_OP_LOOP ? 1 : node->count;
    bool differ = false;
    for (uint32_t i = first; i < end; i++) {
        each = walked(walk, tsr_node_operand(walk->e, node, i));
        differ |= i > first && !is_never(all) && !is_never(each) && !are_alike(all, each);
        all = either(all, each);
    }
    if (!differ || node->op == TSR_OP_LOOP || node->op == TSR_OP_HAVOC)
        return all;
    for (uint32_t i = first; i < end; i++)
        if (is_taken(walk, node, i))
            taken = either(taken, walked(walk, tsr_node_operand(walk->e, node, i)));
    return taken;
}

static struct pointers pointers_of(struct tsr_walk *walk, uint32_t index)
{
    const struct tsr_access_node *node = &walk->e->template->nodes[index];
    switch (node->op) {
    case TSR_OP_PARAMETER:
        return parameter(walk, index);
    case TSR_OP_SYMBOL:
        return walk->e->template->symbols[node->symbol].private ? lost() : pointer(walk, node->symbol | TSR_SYMBOL_BASE);
    case TSR_OP_LOADED:
        return node->width == 64 ? lost() : nothing();
    case TSR_OP_ADD:
    case TSR_OP_SUB:
    case TSR_OP_AND:
    case TSR_OP_OR:
        return added(walked(walk, tsr_node_operand(walk->e, node, 0)), walked(walk, tsr_node_operand(walk->e, node, 1)));
    case TSR_OP_SELECT:
    case TSR_OP_PHI:
    case TSR_OP_ELEMENT:
    case TSR_OP_LOOP:
    case TSR_OP_HAVOC:
    case TSR_OP_MIN:
    case TSR_OP_MAX:
        return chosen(walk, node);
    default:
        return nothing();
    }
}

static struct pointers walked(struct tsr_walk *walk, uint32_t index)
{
    struct pointers *known = &walk->nodes[index];
    if (known->is_known)
        return *known;
    if (known->is_active) {
        walk->cuts += !known->is_cut;
        known->is_cut = true;
        return (struct pointers){.least = NEVER};
    }
    tsr_evaluation_spend(walk->e, 1);
    if (++walk->e->depth > TSR_DEPTH)
        tsr_evaluation_leave(walk->e);
    known->is_active = true;
    struct pointers found = pointers_of(walk, index);
    walk->e->depth--;
    walk->cuts -= known->is_cut;
    *known = found;
    known->is_active = known->is_cut = false;
    known->is_known = walk->cuts == 0;
    return found;
}

/* Whether an input is a pointer into an allocation. */
bool tsr_input_is_allocated(struct tsr_evaluation *e, uint32_t input)
{
    const struct tsr_access_launch *launch = e->launch;
    uint64_t begin, end;
    e->seen[input].asked |= TSR_ASKED_ALLOCATED;
    return launch->allocation &&
           launch->allocation(launch->allocation_context, tsr_input_value(e->inputs, launch, input), &begin, &end);
}

struct tsr_walk *tsr_walk_start(struct tsr_evaluation *e)
{
    size_t bytes = e->template->header->nodes * sizeof(struct pointers);
    struct tsr_walk *walk = tsr_scratch_take(e, sizeof *walk);
    *walk = (struct tsr_walk){.e = e, .nodes = tsr_scratch_take(e, bytes)};
    __builtin_memset(walk->nodes, 0, bytes);
    return walk;
}

uint32_t tsr_walk_bases(struct tsr_walk *walk, uint32_t node, uint32_t found[TSR_WALK_BASES])
{
    struct pointers all = walked(walk, node);
    uint32_t count = 0;
    for (uint32_t i = 0; i < walk->listed; i++)
        if (all.bases >> i & 1)
            found[count++] = walk->list[i];
    return all.least == 1 && all.most == 1 && !all.is_lost ? count : 0;
}
