/*
 * Uses of variables in PTX. Per function, without regard to order: which registers may hold the address of a variable (they are few), and what
 * becomes of them. Loading through one is a use; storing through one, storing the address itself, handing it to a function or to
 * an instruction that is not known to be harmless makes the variable one whose state matters.
 *
 * The same is seen of addresses of functions, and of what was found in memory: an address there may be another GPU's. A call through a register
 * is certain if nothing but names of functions ever gets into it.
 */
#include <string.h>

#include "globals/globals_object.h"
#include "globals/ptx_words.h"

/* What a register may hold, beside the variables whose addresses it may hold. */
#define FROM_MEMORY (1ull << 61) /* found in memory, or made of it; no floating-point number */
#define ELSEWHERE (1ull << 62)   /* that, or a parameter of the kernel */
#define FUNCTION (1ull << 63)    /* the address of a function that is named here */

struct holder { /* what may hold an address */
    uint64_t key, held;
};

struct scan {
    struct tsr_globals *globals;
    struct tsr_ptx_text text;
    bool names_only; /* the first of two times */
    TSR_VEC(struct tsr_ptx_word) words;
    size_t function;          /* in whose body it is */
    struct tsr_map registers; /* what they hold, as a pointer, by key_of() */
    TSR_VEC(struct holder)
    parameters; /* of calls, declared in the body: as the text stands, since their names are used again */
    bool grew;  /* a register may hold more than before */
};

static struct tsr_globals_function_record *use(struct scan *scan)
{
    return &scan->globals->functions.data[scan->function];
}

/* Of a register's name the part before the dot: the other is a component. */
static uint64_t key_of(const struct tsr_ptx_word *word)
{
    const char *dot = word->text[0] == '%' ? memchr(word->text, '.', word->length) : NULL;
    return tsr_globals_key(word->text, dot ? (size_t)(dot - word->text) : word->length);
}

static uint64_t held_in(const struct scan *scan, uint64_t key)
{
    return (uintptr_t)tsr_map_find(&scan->registers, key);
}

static struct holder *find_parameter(const struct scan *scan, uint64_t key)
{
    for (size_t i = 0; i < scan->parameters.count; i++)
        if (scan->parameters.data[i].key == key)
            return &scan->parameters.data[i];
    return NULL;
}

static void hold(struct scan *scan, const struct tsr_ptx_word *word, uint64_t more)
{
    uint64_t key = key_of(word), held = held_in(scan, key);
    if ((held | more) == held)
        return;
    if (!tsr_map_set(&scan->registers, key, (void *)(uintptr_t)(held | more)))
        scan->globals->failed = true;
    else
        scan->grew = true;
}

/* What the word may hold. Naming a function makes its address known. */
static uint64_t meant(struct scan *scan, const struct tsr_ptx_word *word)
{
    if (word->kind != 'w')
        return 0;
    uint64_t key = key_of(word);
    struct tsr_globals_name *name = word->text[0] == '%' ? NULL : tsr_globals_find(scan->globals, word->text, word->length);
    if (!name) {
        const struct holder *parameter = find_parameter(scan, key);
        return held_in(scan, key) | (parameter ? parameter->held : 0);
    }
    if (name->kind == TSR_NAME_FUNCTION) {
        use(scan)->indirect = true;
        return FUNCTION;
    }
    if (name->kind == TSR_NAME_DECLARED)
        use(scan)->own.flags |= tsr_globals_extern(word->text, word->length);
    else {
        uint64_t bit = tsr_globals_bit(scan->globals, name);
        use(scan)->own.variables |= bit;
        return bit;
    }
    return 0;
}

struct operands {
    uint64_t first_address, other_addresses, values; /* held: in brackets of the first operand and of others; not in brackets */
    bool has_address;
    size_t targets; /* words from here on that make up the first operand, when it is none in brackets */
    size_t target_count;
};

static struct operands read_operands(struct scan *scan, size_t begin)
{
    struct operands all = {.targets = begin};
    unsigned operand = 0, depth = 0, brackets = 0;
    for (size_t i = begin; i < scan->words.count; i++) {
        const struct tsr_ptx_word *word = &scan->words.data[i];
        operand += word->kind == ',' && depth == 0;
        depth += word->kind == '{' || word->kind == '[' || word->kind == '(';
        brackets += word->kind == '[';
        all.has_address |= word->kind == '[';
        if (operand == 0 && !brackets)
            all.target_count = i + 1 - begin;
        else if (brackets)
            *(operand == 0 ? &all.first_address : &all.other_addresses) |= meant(scan, word);
        else
            all.values |= meant(scan, word);
        depth -= word->kind == '}' || word->kind == ']' || word->kind == ')';
        brackets -= word->kind == ']';
    }
    return all;
}

static bool is_one_of(const struct tsr_ptx_word *opcode, const char *const names[])
{
    for (; *names; names++)
        if (tsr_ptx_begins(opcode, *names))
            return true;
    return false;
}

static uint64_t targets_meant(struct scan *scan, const struct operands *all)
{
    uint64_t held = 0;
    for (size_t i = 0; i < all->target_count; i++)
        held |= meant(scan, &scan->words.data[all->targets + i]);
    return held;
}

static void hold_in_targets(struct scan *scan, const struct operands *all, uint64_t held)
{
    for (size_t i = 0; i < all->target_count; i++)
        if (scan->words.data[all->targets + i].kind == 'w')
            hold(scan, &scan->words.data[all->targets + i], held);
}

/* It gets out of sight, and may be found in memory. */
static void let_out(struct scan *scan, uint64_t held)
{
    scan->globals->state |= held & TSR_GLOBALS_VARIABLES;
    scan->globals->stores_addresses |= (held & TSR_GLOBALS_VARIABLES) != 0;
    if (held & FUNCTION)
        use(scan)->own.flags |= TSR_GLOBALS_CODE;
}

/* What goes into a parameter of a call goes to the function that is called; into any other parameter, to whoever called this one. */
static void store_parameter(struct scan *scan, size_t begin, uint64_t values)
{
    const struct tsr_ptx_word *name = begin + 1 < scan->words.count ? &scan->words.data[begin + 1] : NULL;
    struct holder *parameter = name ? find_parameter(scan, key_of(name)) : NULL;
    if (parameter)
        parameter->held |= values;
    else
        let_out(scan, values);
}

static bool has_part(const struct tsr_ptx_word *opcode, const char *part)
{
    return memmem(opcode->text, opcode->length, part, strlen(part)) != NULL;
}

/* What an instruction that reads memory puts into its targets. */
static uint64_t found_by(struct scan *scan, const struct tsr_ptx_word *opcode, size_t begin)
{
    if (has_part(opcode, ".f16") || has_part(opcode, ".f32") || has_part(opcode, ".f64") || has_part(opcode, ".bf16"))
        return 0;
    bool parameter = tsr_ptx_begins(opcode, "ld.param");
    for (size_t i = begin; i < scan->words.count && parameter; i++)
        parameter = !find_parameter(scan, key_of(&scan->words.data[i])); /* what a call gave back is none */
    return parameter && !use(scan)->callable ? ELSEWHERE : FROM_MEMORY | ELSEWHERE;
}

static void note_addresses(struct scan *scan, const struct tsr_ptx_word *opcode, const struct operands *all)
{
    bool near = has_part(opcode, ".param") || has_part(opcode, ".local") ||
                (has_part(opcode, ".shared") && !has_part(opcode, ".global"));
    if (!near && ((all->first_address | all->other_addresses) & FROM_MEMORY))
        use(scan)->own.flags |= TSR_GLOBALS_FOLLOWS;
}

static void instruction(struct scan *scan, const struct tsr_ptx_word *opcode, size_t begin)
{
    static const char *const textures[] = {"tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep", NULL};
    static const char *const loads[] = {"ld", "ldu", "ldmatrix", "prefetch", "prefetchu", NULL};
    static const char *const comparisons[] = {"setp", "set", "isspacep", NULL};
    static const char *const stores[] = {"st", "red", NULL};
    struct operands all = read_operands(scan, begin);
    note_addresses(scan, opcode, &all);
    if (is_one_of(opcode, textures))
        use(scan)->own.flags |= TSR_GLOBALS_STATE;
    if (is_one_of(opcode, comparisons))
        return;
    if (is_one_of(opcode, loads)) {
        hold_in_targets(scan, &all, found_by(scan, opcode, begin));
    } else if (!all.has_address) {
        hold_in_targets(scan, &all, all.values);
    } else if (tsr_ptx_begins(opcode, "st.param")) {
        store_parameter(scan, begin, all.values);
    } else {
        bool copies = tsr_ptx_begins(opcode, "cp");
        uint64_t written = all.first_address | targets_meant(scan, &all) | (copies ? 0 : all.other_addresses);
        scan->globals->state |= written & TSR_GLOBALS_VARIABLES;
        let_out(scan, all.values);
        if (!is_one_of(opcode, stores))
            hold_in_targets(scan, &all, found_by(scan, opcode, begin));
    }
}

static void call_through(struct scan *scan, const struct tsr_ptx_word *callee)
{
    use(scan)->indirect = true;
    if (meant(scan, callee) != FUNCTION)
        use(scan)->own.flags |= TSR_GLOBALS_CODE;
}

/* call{.uni} {(results),} callee {, (arguments)} {, prototype}; */
static void call(struct scan *scan, size_t at)
{
    while (at < scan->words.count && scan->words.data[at].kind == '(') {
        while (at < scan->words.count && scan->words.data[at].kind != ')')
            at++;
        at += 2;
    }
    if (at >= scan->words.count)
        return;
    const struct tsr_ptx_word *callee = &scan->words.data[at];
    const struct tsr_globals_name *name = tsr_globals_find(scan->globals, callee->text, callee->length);
    uint64_t given = 0;
    for (size_t i = at + 1; i < scan->words.count; i++)
        given |= meant(scan, &scan->words.data[i]);
    bool only_reads = tsr_ptx_is(callee, "vprintf") || tsr_ptx_is(callee, "__assertfail");
    if (name && name->kind == TSR_NAME_DECLARED)
        use(scan)->own.flags |= tsr_globals_extern(callee->text, callee->length);
    else if (!name)
        call_through(scan, callee);
    else if (name->kind == TSR_NAME_FUNCTION && !tsr_vec_push(&use(scan)->calls, name->number))
        scan->globals->failed = true;
    if (!only_reads || !name || name->kind != TSR_NAME_DECLARED)
        let_out(scan, given);
}

static bool is_name(const struct tsr_ptx_word *word)
{
    return word->kind == 'w' && word->text[0] != '.' && (word->text[0] < '0' || word->text[0] > '9');
}

static void declare_variables(struct scan *scan, const struct tsr_ptx_word *words, size_t count, bool managed)
{
    for (size_t i = 0; i < count; i++) {
        struct tsr_globals_name *name =
            is_name(&words[i]) ? tsr_globals_add(scan->globals, words[i].text, words[i].length, TSR_NAME_VARIABLE) : NULL;
        if (name)
            name->managed |= managed;
    }
}

static void declare_parameter(struct scan *scan, const struct tsr_ptx_word *word)
{
    uint64_t key = key_of(word);
    struct holder *parameter = find_parameter(scan, key);
    if (parameter)
        parameter->held = 0;
    else if (!tsr_vec_push(&scan->parameters, (struct holder){key, 0}))
        scan->globals->failed = true;
}

static void directive(struct scan *scan, size_t at)
{
    const struct tsr_ptx_word *words = &scan->words.data[at];
    size_t count = scan->words.count - at;
    if (tsr_ptx_is(words, ".global") || tsr_ptx_is(words, ".const"))
        declare_variables(scan, words, count, false);
    for (size_t i = 0; i < count && tsr_ptx_is(words, ".param"); i++)
        if (is_name(&words[i]))
            declare_parameter(scan, &words[i]);
}

static void statement(struct scan *scan)
{
    size_t at = 0, count = scan->words.count;
    if (count && scan->words.data[0].kind == '@')
        at = count > 1 && scan->words.data[1].kind == '!' ? 3 : 2;
    if (at >= count || scan->words.data[at].kind != 'w')
        return;
    const struct tsr_ptx_word opcode = scan->words.data[at];
    if (opcode.text[0] == '.')
        directive(scan, at);
    else if (scan->names_only)
        return;
    else if (tsr_ptx_begins(&opcode, "call"))
        call(scan, at + 1);
    else
        instruction(scan, &opcode, at + 1);
}

/* From after the opening brace to the one that closes it. False: there is none. */
static bool pass_over_body(struct scan *scan)
{
    unsigned depth = 1, inner = 0;
    tsr_vec_clear(&scan->words);
    while (depth) {
        struct tsr_ptx_word word = tsr_ptx_next(&scan->text);
        size_t count = scan->words.count;
        if (!word.kind)
            return false;
        if (count == 0 && (word.kind == '{' || word.kind == '}')) {
            depth += word.kind == '{' ? 1u : UINT32_MAX;
            continue;
        }
        if (word.kind == ':' && count == 1) { /* a label */
            tsr_vec_clear(&scan->words);
            continue;
        }
        inner += word.kind == '{' ? 1u : word.kind == '}' ? UINT32_MAX : 0;
        if (word.kind == ';' && inner == 0) {
            statement(scan);
            tsr_vec_clear(&scan->words);
        } else if (!tsr_vec_push(&scan->words, word)) {
            scan->globals->failed = true;
        }
    }
    return true;
}

/* Again as long as a register is seen to hold more: what stands above may come after. */
static bool read_body(struct scan *scan)
{
    struct tsr_ptx_text begin = scan->text;
    bool whole;
    tsr_map_fini(&scan->registers);
    tsr_vec_clear(&scan->parameters);
    do {
        scan->text = begin;
        scan->grew = false;
        tsr_vec_clear(&use(scan)->calls);
        whole = pass_over_body(scan);
    } while (whole && scan->grew);
    return whole;
}

/* The variable whose initial value comes next; NULL: none is known. */
static struct tsr_globals_name *declared_last(const struct scan *scan)
{
    for (size_t i = scan->words.count; i-- > 0;) {
        const struct tsr_ptx_word *word = &scan->words.data[i];
        struct tsr_globals_name *name = word->kind == 'w' ? tsr_globals_find(scan->globals, word->text, word->length) : NULL;
        if (name && name->kind == TSR_NAME_VARIABLE)
            return name;
    }
    return NULL;
}

/* A variable whose address is another's initial value is out of sight. */
static void read_initial_value(struct scan *scan, struct tsr_ptx_word word)
{
    struct tsr_globals_name *name = word.kind == 'w' ? tsr_globals_find(scan->globals, word.text, word.length) : NULL;
    struct tsr_globals_name *of = name ? declared_last(scan) : NULL;
    if (name && name->kind == TSR_NAME_VARIABLE)
        scan->globals->state |= tsr_globals_bit(scan->globals, name);
    if (of && !tsr_vec_push(&scan->globals->pointers, (struct tsr_globals_pointer){of, name}))
        scan->globals->failed = true;
}

static const struct tsr_ptx_word *function_name(const struct scan *scan)
{
    bool after_directive = false;
    unsigned depth = 0;
    for (size_t i = 0; i < scan->words.count; i++) {
        const struct tsr_ptx_word *word = &scan->words.data[i];
        depth += word->kind == '(' ? 1u : word->kind == ')' ? UINT32_MAX : 0;
        if (after_directive && depth == 0 && word->kind == 'w' && word->text[0] != '.')
            return word;
        after_directive |= tsr_ptx_is(word, ".entry") || tsr_ptx_is(word, ".func");
    }
    return NULL;
}

static bool has(const struct scan *scan, const char *text)
{
    for (size_t i = 0; i < scan->words.count; i++)
        if (tsr_ptx_is(&scan->words.data[i], text))
            return true;
    return false;
}

/* A function's header has been read. False: what follows cannot be read. */
static bool function(struct scan *scan, bool body)
{
    const struct tsr_ptx_word *name = function_name(scan);
    if (!name)
        return false;
    if (!body)
        return tsr_globals_add(scan->globals, name->text, name->length, TSR_NAME_DECLARED) != NULL;
    struct tsr_globals_function_record *defined = tsr_globals_define(scan->globals, name->text, name->length);
    if (!defined)
        return false;
    defined->callable |= has(scan, ".func");
    scan->function = (size_t)(defined - scan->globals->functions.data);
    return scan->names_only ? pass_over_body(scan) : read_body(scan);
}

/* .alias a, b; */
static void alias(struct scan *scan)
{
    const struct tsr_ptx_word *words = scan->words.data;
    if (scan->words.count < 4 || !tsr_ptx_is(words, ".alias"))
        return;
    struct tsr_globals_function_record *made = tsr_globals_define(scan->globals, words[1].text, words[1].length);
    const struct tsr_globals_name *of = tsr_globals_find(scan->globals, words[3].text, words[3].length);
    if (made)
        made->callable = true;
    if (made && of && of->kind == TSR_NAME_FUNCTION && !tsr_vec_push(&made->calls, of->number))
        scan->globals->failed = true;
}

static void variable(struct scan *scan)
{
    static const char *const spaces[] = {".global", ".const", ".texref", ".surfref", ".samplerref", NULL};
    for (size_t i = 0; i < scan->words.count; i++)
        if (scan->words.data[i].text[0] == '.' && is_one_of(&scan->words.data[i], spaces))
            declare_variables(scan, scan->words.data + i, scan->words.count - i, has(scan, ".managed"));
}

/* One pass over the module. False: it ends too early. */
static bool pass(struct scan *scan)
{
    unsigned depth = 0; /* of braces in an initial value */
    bool initial_value = false;
    tsr_vec_clear(&scan->words);
    for (struct tsr_ptx_word word; (word = tsr_ptx_next(&scan->text)).kind;) {
        bool is_function = has(scan, ".entry") || has(scan, ".func");
        bool pragma = scan->words.count && tsr_ptx_is(&scan->words.data[scan->words.count - 1], ".pragma");
        if (initial_value) {
            depth += word.kind == '{' ? 1u : word.kind == '}' ? UINT32_MAX : 0;
            if (!scan->names_only)
                read_initial_value(scan, word);
            if ((word.kind != ';' && word.kind != ',') || depth)
                continue;
            initial_value = false;
        }
        if (is_function && (word.kind == '{' || word.kind == ';') && !pragma) {
            if (!function(scan, word.kind == '{'))
                return false;
            tsr_vec_clear(&scan->words);
        } else if (word.kind == ';' && !pragma) {
            if (scan->names_only)
                variable(scan);
            else
                alias(scan);
            tsr_vec_clear(&scan->words);
        } else if (!tsr_vec_push(&scan->words, word)) {
            scan->globals->failed = true;
        } else {
            initial_value = word.kind == '=';
        }
    }
    return true;
}

void tsr_globals_scan_ptx(struct tsr_globals *globals, struct tsr_span text)
{
    struct scan scan = {.globals = globals, .names_only = true};
    const char *begin = (const char *)text.data;
    struct tsr_ptx_text all = {begin, begin + strnlen(begin, text.size)};
    scan.text = all;
    bool whole = pass(&scan);
    scan.names_only = false;
    scan.text = all;
    if (!whole || !pass(&scan))
        globals->every |= TSR_GLOBALS_ALL;
    tsr_vec_fini(&scan.words);
    tsr_map_fini(&scan.registers);
    tsr_vec_fini(&scan.parameters);
}
