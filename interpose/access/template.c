/* See template.h. */
#include "access/template.h"

#define MOST_ENTRIES (1u << 24) /* of a section */
#define MOST_OFFSET 65536u      /* of a parameter block */
#define MOST_BITS 128u
#define SYMBOL_BASE 0x80000000u

/* What is asked of an operation's node. */
struct demand {
    uint8_t operands; /* at least */
    bool is_machine;  /* the width is that of a machine's number, 1 to 64 */
    bool names_a_loop;
};

static const struct demand demands[TSR_OPS] = {
    [TSR_OP_PARAMETER] = {.is_machine = true},
    [TSR_OP_ADD] = {2},
    [TSR_OP_SUB] = {2},
    [TSR_OP_MUL] = {2, true},
    [TSR_OP_MUL_WIDE] = {2, true},
    [TSR_OP_MUL_HIGH] = {2, true},
    [TSR_OP_SHL] = {2, true},
    [TSR_OP_SHR] = {2, true},
    [TSR_OP_AND] = {2, true},
    [TSR_OP_OR] = {2, true},
    [TSR_OP_XOR] = {2, true},
    [TSR_OP_NOT] = {1},
    [TSR_OP_NEG] = {1},
    [TSR_OP_ABS] = {1, true},
    [TSR_OP_MIN] = {2, true},
    [TSR_OP_MAX] = {2, true},
    [TSR_OP_DIV] = {2, true},
    [TSR_OP_REM] = {2, true},
    [TSR_OP_CONVERT] = {1, true},
    [TSR_OP_EXTRACT] = {3},
    [TSR_OP_PACK] = {1, true},
    [TSR_OP_SELECT] = {3},
    [TSR_OP_PHI] = {1},
    [TSR_OP_ELEMENT] = {3, true},
    [TSR_OP_LOOP] = {2, .names_a_loop = true},
    [TSR_OP_HAVOC] = {.names_a_loop = true},
    [TSR_OP_INDUCTION] = {.names_a_loop = true},
    [TSR_OP_COMPARE] = {2, true},
    [TSR_OP_BOTH] = {2},
    [TSR_OP_EITHER] = {2},
    [TSR_OP_OPPOSITE] = {1},
};

/* Where a section begins, and the end of it in `place`; NULL: it does not fit. */
static const void *section(const void *bytes, size_t size, size_t *place, uint32_t count, size_t entry)
{
    const char *begin = (const char *)bytes + *place;
    if (count > MOST_ENTRIES || count * entry > size - *place)
        return NULL;
    size_t end = (*place + count * entry + 7) & ~(size_t)7;
    if (end > size)
        return NULL;
    *place = end;
    return begin;
}

static bool find_sections(const void *bytes, size_t size, struct tsr_sections *s)
{
    const struct tsr_access_template *h = bytes;
    size_t place = sizeof *h;
    if (size < sizeof *h || h->magic != TSR_ACCESS_MAGIC || h->version != TSR_ACCESS_VERSION || h->bytes != size)
        return false;
    s->header = h;
    return (s->parameters = section(bytes, size, &place, h->parameters, sizeof *s->parameters)) &&
           (s->nodes = section(bytes, size, &place, h->nodes, sizeof *s->nodes)) &&
           (s->operands = section(bytes, size, &place, h->operands, sizeof *s->operands)) &&
           (s->conditions = section(bytes, size, &place, h->conditions, sizeof *s->conditions)) &&
           (s->loops = section(bytes, size, &place, h->loops, sizeof *s->loops)) &&
           (s->blocks = section(bytes, size, &place, h->blocks, sizeof *s->blocks)) &&
           (s->accesses = section(bytes, size, &place, h->accesses, sizeof *s->accesses)) &&
           (s->tensors = section(bytes, size, &place, h->tensors, sizeof *s->tensors)) &&
           (s->unknowns = section(bytes, size, &place, h->unknowns, sizeof *s->unknowns)) &&
           (s->symbols = section(bytes, size, &place, h->symbols, sizeof *s->symbols)) &&
           (s->text = section(bytes, size, &place, h->text_bytes, 1)) && place == size;
}

static bool is_text(const struct tsr_sections *s, uint32_t offset)
{
    return offset < s->header->text_bytes; /* the last byte is a zero */
}

/* Whether some operands exist and are below a limit. */
static bool are_below(const struct tsr_sections *s, uint64_t first, uint64_t count, uint32_t limit)
{
    if (first + count > s->header->operands)
        return false;
    for (uint64_t i = first; i < first + count; i++)
        if (s->operands[i] >= limit)
            return false;
    return true;
}

static bool check_number(const struct tsr_sections *s, const struct tsr_access_node *node)
{
    if (demands[node->op].names_a_loop)
        return node->number >= 0 && node->number < s->header->loops;
    if (node->op == TSR_OP_PARAMETER)
        return node->width % 8 == 0 && node->number >= 0 && node->number < MOST_OFFSET;
    if (node->op == TSR_OP_ELEMENT)
        return node->number >= 1 && node->number < MOST_OFFSET;
    if (node->op == TSR_OP_SYMBOL)
        return node->symbol < s->header->symbols;
    if (node->op == TSR_OP_SPECIAL)
        return node->code <= TSR_SPECIAL_OTHER;
    return node->op != TSR_OP_COMPARE || node->code <= TSR_COMPARE_OTHER;
}

static bool check_node(const struct tsr_sections *s, const struct tsr_access_node *node)
{
    const struct tsr_access_template *h = s->header;
    if (node->op >= TSR_OPS || node->width > MOST_BITS || node->block >= h->blocks || node->condition >= h->conditions)
        return false;
    const struct demand *demand = &demands[node->op];
    if (demand->is_machine && (node->width < 1 || node->width > 64))
        return false;
    if (node->count < demand->operands || !are_below(s, node->first, node->count, h->nodes))
        return false;
    if (node->op == TSR_OP_PHI && !are_below(s, (uint64_t)node->first + node->count, node->count, h->conditions))
        return false;
    return check_number(s, node);
}

static bool check_condition(const struct tsr_sections *s, uint32_t index)
{
    const struct tsr_access_condition *condition = &s->conditions[index];
    if (index == 0)
        return condition->parent == 0 && condition->predicate == -1;
    return condition->parent < index && condition->predicate >= -1 && condition->predicate < (int64_t)s->header->nodes;
}

static bool is_condition(const struct tsr_sections *s, uint32_t condition)
{
    return condition < s->header->conditions || condition == TSR_ACCESS_NEVER;
}

static bool check_loop(const struct tsr_sections *s, const struct tsr_access_loop *loop)
{
    uint32_t conditions = s->header->conditions;
    return is_condition(s, loop->must) && is_condition(s, loop->again) && loop->condition < conditions &&
           are_below(s, loop->first_entry, loop->entries, conditions) &&
           are_below(s, loop->first_back, loop->backs, conditions);
}

static bool check_bases(const struct tsr_sections *s, const struct tsr_access_access *access)
{
    if ((uint64_t)access->first_base + access->bases > s->header->operands)
        return false;
    for (uint32_t i = 0; i < access->bases; i++) {
        uint32_t base = s->operands[access->first_base + i];
        if (base & SYMBOL_BASE ? (base & ~SYMBOL_BASE) >= s->header->symbols : base >= MOST_OFFSET)
            return false;
    }
    return true;
}

static bool check_access(const struct tsr_sections *s, const struct tsr_access_access *access)
{
    int64_t nodes = s->header->nodes;
    return access->kind <= TSR_ACCESS_ATOMIC && access->address < nodes && access->condition < s->header->conditions &&
           access->pitch >= -1 && access->pitch < nodes && access->length >= -1 && access->length < nodes &&
           (access->rows <= 1 || access->pitch >= 0) && is_condition(s, access->must) && check_bases(s, access) &&
           are_below(s, access->first_pointer, access->pointers, MOST_OFFSET);
}

static bool check_tensor(const struct tsr_sections *s, const struct tsr_access_tensor *tensor)
{
    return tensor->kind <= TSR_ACCESS_ATOMIC && tensor->condition < s->header->conditions &&
           (tensor->offset < MOST_OFFSET || tensor->offset == TSR_ACCESS_IN_MEMORY) &&
           are_below(s, tensor->first_parameter, tensor->parameters, MOST_OFFSET) &&
           are_below(s, tensor->first_load, tensor->loads, UINT32_MAX);
}

bool tsr_template_read(const void *bytes, size_t size, struct tsr_sections *s)
{
    if (!find_sections(bytes, size, s))
        return false;
    const struct tsr_access_template *h = s->header;
    bool good = h->conditions && h->blocks && h->text_bytes && s->text[h->text_bytes - 1] == 0 && is_text(s, h->name);
    for (uint32_t i = 0; i < h->nodes && good; i++)
        good = check_node(s, &s->nodes[i]);
    for (uint32_t i = 0; i < h->conditions && good; i++)
        good = check_condition(s, i);
    for (uint32_t i = 0; i < h->loops && good; i++)
        good = check_loop(s, &s->loops[i]);
    for (uint32_t i = 0; i < h->accesses && good; i++)
        good = check_access(s, &s->accesses[i]);
    for (uint32_t i = 0; i < h->tensors && good; i++)
        good = check_tensor(s, &s->tensors[i]);
    for (uint32_t i = 0; i < h->unknowns && good; i++)
        good = is_text(s, s->unknowns[i].reason);
    for (uint32_t i = 0; i < h->symbols && good; i++)
        good = is_text(s, s->symbols[i].name) && s->symbols[i].private <= 2;
    return good;
}
