/* See scope.h. */
#include "scope.h"

#define RANGE_DIGITS 9u /* a register number has at most so many */
#define MEMBER_BYTES_MAX ((uint64_t)16 << 20)

void tsr_scope_open(struct tsr_load *load)
{
    if (load->depth + 1 >= TSR_SCOPE_MAX)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, tsr_text_column(&load->text, load->text.at),
                      "more than %u nested scopes", TSR_SCOPE_MAX - 2);
    uint32_t parent = load->scopes[load->depth].id;
    struct tsr_scope *scope = &load->scopes[++load->depth];
    scope->symbols = NULL;
    scope->area_top = load->scopes[load->depth - 1].area_top;
    scope->id = (uint32_t)load->scope_parents.count;
    tsr_load_push(load, &load->scope_parents, parent);
}

void tsr_scope_close(struct tsr_load *load)
{
    struct tsr_scope *scope = &load->scopes[load->depth--];
    for (struct tsr_ptx_symbol *symbol = scope->symbols; symbol; symbol = symbol->declared_before) {
        if (!symbol->name)
            continue;
        if (symbol->kind == TSR_SYMBOL_RANGE)
            symbol->name->range = symbol->shadowed;
        else
            symbol->name->symbol = symbol->shadowed;
    }
    if (scope->symbols)
        load->generation++;
    scope->symbols = NULL;
}

static uint32_t digits_at_end(const char *text, uint32_t length)
{
    uint32_t digits = 0;
    while (digits < length && tsr_char_is(text[length - 1 - digits], TSR_CHAR_DIGIT))
        digits++;
    return digits;
}

/* %r1 or %r1<5> beside %r<10>: the quick way of tsr_scope_find_word would not see which one is meant. */
static void note_digits(struct tsr_load *load, const struct tsr_ptx_name *name)
{
    uint32_t digits = digits_at_end(name->text, name->length);
    if (digits && digits < name->length)
        tsr_load_intern(load, (struct tsr_word){name->text, name->length - digits})->ambiguous = true;
}

struct tsr_ptx_symbol *tsr_scope_declare(struct tsr_load *load, struct tsr_ptx_name *name, enum tsr_symbol_kind kind)
{
    struct tsr_ptx_symbol *symbol = tsr_load_new(load, load->depth ? &load->scratch : &load->module, struct tsr_ptx_symbol, 1);
    struct tsr_scope *scope = &load->scopes[load->depth];
    symbol->kind = kind;
    symbol->depth = load->depth;
    symbol->name = name;
    symbol->declared_before = scope->symbols;
    scope->symbols = symbol;
    if (name) {
        note_digits(load, name);
        struct tsr_ptx_symbol **slot = kind == TSR_SYMBOL_RANGE ? &name->range : &name->symbol;
        symbol->shadowed = *slot;
        *slot = symbol;
    }
    load->generation++;
    return symbol;
}

uint32_t tsr_register_new(struct tsr_load *load, uint8_t type)
{
    uint32_t id = (uint32_t)load->register_types.count;
    tsr_load_push(load, &load->register_types, type);
    if (type == TSR_T_B128)
        tsr_load_push(load, &load->register_types, TSR_T_B64);
    return id;
}

uint32_t tsr_area_new(struct tsr_load *load, uint32_t bytes)
{
    struct tsr_scope *scope = &load->scopes[load->depth];
    uint32_t id = (uint32_t)load->areas.count;
    tsr_load_push(load, &load->areas, (struct tsr_area){bytes, scope->area_top});
    scope->area_top += 32 * TSR_AREA_STRIDE(bytes);
    if (scope->area_top > 1u << 26)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, 1, "more than 64 MiB of parameters in a warp's frame");
    if (scope->area_top > load->area_bytes)
        load->area_bytes = scope->area_top;
    return id;
}

/* A register made from a range declaration; it is found again through its name. */
struct tsr_member {
    struct tsr_member *older;
    const struct tsr_ptx_symbol *range;
    struct tsr_ptx_symbol symbol;
};

/* The innermost range that has this register. */
static struct tsr_ptx_symbol *range_of(struct tsr_load *load, const struct tsr_ptx_name *name, uint32_t *index)
{
    struct tsr_ptx_symbol *best = NULL;
    uint64_t number = 0, weight = 1;
    for (uint32_t digits = 1; digits <= RANGE_DIGITS && digits < name->length; digits++, weight *= 10) {
        char c = name->text[name->length - digits];
        if (!tsr_char_is(c, TSR_CHAR_DIGIT))
            break;
        number += weight * (uint64_t)(c - '0');
        if (c == '0' && digits > 1)
            continue;
        struct tsr_ptx_name *prefix = tsr_load_intern(load, (struct tsr_word){name->text, name->length - digits});
        if (prefix->range && number < prefix->range->count && (!best || prefix->range->depth > best->depth)) {
            best = prefix->range;
            *index = (uint32_t)number;
        }
    }
    return best;
}

static void own_name(struct tsr_load *load, struct tsr_ptx_name *name)
{
    if (name->function == load->function_number)
        return;
    name->function = load->function_number;
    name->labels = NULL;
    name->members = NULL;
}

static uint32_t member_id(struct tsr_load *load, const struct tsr_ptx_symbol *range, uint32_t index)
{
    if (!range->members)
        return tsr_register_new(load, range->type);
    if (!range->members[index])
        range->members[index] = tsr_register_new(load, range->type) + 1;
    return range->members[index] - 1;
}

static struct tsr_ptx_symbol *member_of(struct tsr_load *load, struct tsr_ptx_name *name, const struct tsr_ptx_symbol *range,
                                        uint32_t index)
{
    own_name(load, name);
    for (struct tsr_member *member = name->members; member; member = member->older)
        if (member->range == range)
            return &member->symbol;
    struct tsr_member *member = tsr_load_new(load, &load->scratch, struct tsr_member, 1);
    member->range = range;
    member->older = name->members;
    name->members = member;
    struct tsr_ptx_symbol *symbol = &member->symbol;
    symbol->kind = range->width ? TSR_SYMBOL_VECTOR : TSR_SYMBOL_REGISTER;
    symbol->type = range->type;
    symbol->width = range->width;
    symbol->id = member_id(load, range, index);
    symbol->ids[0] = symbol->id;
    for (uint32_t i = 1; i < range->width; i++)
        symbol->ids[i] = tsr_register_new(load, range->type);
    return symbol;
}

struct tsr_ptx_symbol *tsr_scope_find(struct tsr_load *load, struct tsr_ptx_name *name)
{
    if (name->generation == load->generation)
        return name->resolved;
    struct tsr_ptx_symbol *found = name->symbol;
    uint32_t index = 0;
    const struct tsr_ptx_symbol *range = range_of(load, name, &index);
    if (range && (!found || range->depth > found->depth))
        found = member_of(load, name, range, index);
    name->resolved = found;
    name->generation = load->generation;
    return found;
}

void tsr_scope_declare_range(struct tsr_load *load, struct tsr_ptx_name *name, uint8_t type, uint8_t width, uint32_t count)
{
    struct tsr_ptx_symbol *range = tsr_scope_declare(load, name, TSR_SYMBOL_RANGE);
    range->type = type;
    range->width = width;
    range->count = count;
    uint64_t bytes = count * sizeof *range->members;
    if (width || !count || load->member_bytes + bytes > MEMBER_BYTES_MAX)
        return;
    load->member_bytes += bytes;
    range->members = tsr_load_new(load, &load->scratch, uint32_t, count);
}

struct tsr_ptx_symbol *tsr_scope_find_word(struct tsr_load *load, struct tsr_word word, struct tsr_ptx_name **name,
                                           uint32_t *register_id)
{
    uint32_t digits = digits_at_end(word.text, word.length), number = 0;
    const char *first = word.text + word.length - digits;
    *register_id = TSR_NO_REG;
    if (digits && digits <= RANGE_DIGITS && digits < word.length && (*first != '0' || digits == 1)) {
        const struct tsr_ptx_name *prefix = tsr_load_intern(load, (struct tsr_word){word.text, word.length - digits});
        const struct tsr_ptx_symbol *range = prefix->range;
        for (uint32_t i = 0; i < digits; i++)
            number = number * 10 + (uint32_t)(first[i] - '0');
        if (range && range->members && !prefix->ambiguous && number < range->count) {
            *register_id = member_id(load, range, number);
            return NULL;
        }
    }
    *name = tsr_load_intern(load, word);
    return tsr_scope_find(load, *name);
}

void tsr_label_define(struct tsr_load *load, struct tsr_ptx_name *name)
{
    own_name(load, name);
    uint32_t scope = load->scopes[load->depth].id;
    for (const struct tsr_label *label = name->labels; label; label = label->older)
        if (label->scope == scope)
            tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, 1, "label '%s' is already defined in line %u",
                          name->text, label->line);
    struct tsr_label *label = tsr_load_new(load, &load->scratch, struct tsr_label, 1);
    label->older = name->labels;
    label->name = name;
    label->scope = scope;
    label->statement = (uint32_t)load->statements.count;
    label->line = load->text.line;
    label->id = (uint32_t)load->labels.count;
    name->labels = label;
    tsr_load_push(load, &load->labels, label);
}

struct tsr_label *tsr_label_find(struct tsr_load *load, const struct tsr_ptx_name *name, uint32_t scope)
{
    if (name->function != load->function_number)
        return NULL;
    for (;; scope = load->scope_parents.data[scope]) {
        for (struct tsr_label *label = name->labels; label; label = label->older)
            if (label->scope == scope)
                return label;
        if (scope == 0)
            return NULL;
    }
}
