/* See globals.h. */
#include "globals/globals.h"

#include <stdlib.h>
#include <string.h>

#include "globals/globals_object.h"

uint64_t tsr_globals_key(const char *name, size_t length)
{
    uint64_t hash = tsr_hash(name, length);
    return hash == UINT64_MAX ? 1 : hash;
}

struct tsr_globals_name *tsr_globals_find(const struct tsr_globals *globals, const char *name, size_t length)
{
    return tsr_map_find(&globals->names, tsr_globals_key(name, length));
}

struct tsr_globals_name *tsr_globals_add(struct tsr_globals *globals, const char *name, size_t length, int kind)
{
    struct tsr_globals_name *found = tsr_globals_find(globals, name, length);
    if (found)
        return found;
    found = calloc(1, sizeof *found);
    if (!found || !tsr_map_set(&globals->names, tsr_globals_key(name, length), found)) {
        free(found);
        globals->failed = true;
        return NULL;
    }
    found->kind = kind;
    found->bit = -1;
    found->known_by = tsr_variable_bit(name, length);
    return found;
}

struct tsr_globals_function_record *tsr_globals_define(struct tsr_globals *globals, const char *name, size_t length)
{
    struct tsr_globals_name *found = tsr_globals_add(globals, name, length, TSR_NAME_DECLARED);
    if (!found)
        return NULL;
    if (found->kind != TSR_NAME_FUNCTION) {
        if (!tsr_vec_push(&globals->functions, (struct tsr_globals_function_record){0})) {
            globals->failed = true;
            return NULL;
        }
        found->kind = TSR_NAME_FUNCTION;
        found->number = globals->functions.count - 1;
    }
    return &globals->functions.data[found->number];
}

uint64_t tsr_globals_bit(struct tsr_globals *globals, struct tsr_globals_name *variable)
{
    if (variable->bit < 0)
        variable->bit = (int)(globals->bits < TSR_GLOBALS_SHARED_BIT ? globals->bits++ : TSR_GLOBALS_SHARED_BIT);
    uint64_t bit = 1ull << variable->bit;
    globals->known_by[variable->bit] |= variable->known_by;
    if (variable->managed)
        globals->state |= bit;
    return bit;
}

uint32_t tsr_globals_extern(const char *name, size_t length)
{
    static const struct {
        const char *name;
        uint32_t flags;
    } known[] = {{"vprintf", TSR_GLOBALS_PRINTF},
                 {"__assertfail", 0},
                 {"__assert_fail", 0},
                 {"malloc", TSR_GLOBALS_HEAP},
                 {"free", TSR_GLOBALS_HEAP}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == length && memcmp(known[i].name, name, length) == 0)
            return known[i].flags;
    return TSR_GLOBALS_STATE;
}

static bool take_in(struct tsr_references *into, const struct tsr_references *from)
{
    struct tsr_references before = *into;
    into->flags |= from->flags;
    into->variables |= from->variables;
    return into->flags != before.flags || into->variables != before.variables;
}

/* A function that uses a variable may load the pointers in it. */
static bool take_pointers(const struct tsr_globals *globals, struct tsr_references *use)
{
    uint64_t before = use->variables;
    for (size_t i = 0; i < globals->pointers.count; i++) {
        const struct tsr_globals_pointer *pointer = &globals->pointers.data[i];
        if (pointer->from->bit >= 0 && pointer->to->bit >= 0 && use->variables >> pointer->from->bit & 1)
            use->variables |= 1ull << pointer->to->bit;
    }
    return use->variables != before;
}

/* A function uses what its callees use; one that calls through pointers may call every function that is not a kernel. */
static void close_over_calls(struct tsr_globals *globals)
{
    struct tsr_references callable = {0};
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < globals->functions.count; i++) {
            struct tsr_globals_function_record *function = &globals->functions.data[i];
            for (size_t k = 0; k < function->calls.count; k++)
                changed |= take_in(&function->own, &globals->functions.data[function->calls.data[k]].own);
            if (function->callable)
                changed |= take_in(&callable, &function->own);
            if (function->indirect)
                changed |= take_in(&function->own, &callable);
            changed |= take_pointers(globals, &function->own);
        }
    }
}

static void find_stored_addresses(struct tsr_globals *globals)
{
    uint64_t tables = 0; /* variables that hold addresses of functions */
    for (size_t i = 0; i < globals->pointers.count; i++) {
        const struct tsr_globals_pointer *pointer = &globals->pointers.data[i];
        bool is_variable = pointer->to->kind == TSR_NAME_VARIABLE;
        if (pointer->from->bit < 0)
            continue;
        globals->stores_addresses |= is_variable;
        tables |= is_variable ? 0 : 1ull << pointer->from->bit;
    }
    for (size_t i = 0; i < globals->functions.count; i++) {
        struct tsr_references *use = &globals->functions.data[i].own;
        globals->stores_addresses |= (use->flags & TSR_GLOBALS_HEAP) != 0;
        if (use->variables & tables)
            use->flags |= TSR_GLOBALS_CODE;
    }
}

static void scan(struct tsr_globals *globals, struct tsr_span part)
{
    struct tsr_image text;
    struct tsr_image_seen seen = {0};
    if (!tsr_elf_is(part)) {
        tsr_globals_scan_ptx(globals, part);
    } else if (tsr_elf_resolve(part, &text, &seen) == CUDA_SUCCESS) { /* it contains the text that it was made from */
        tsr_globals_scan_ptx(globals, (struct tsr_span){(const uint8_t *)text.text, text.length});
        tsr_image_fini(&text);
    } else {
        tsr_globals_scan_elf(globals, part);
    }
}

struct choice {
    struct tsr_globals *globals;
    uint32_t arch;
    bool machine; /* machine code is wanted, not PTX */
    bool found;
};

static bool is_wanted(void *context, uint32_t arch, bool machine)
{
    const struct choice *choice = context;
    return machine == choice->machine && arch <= choice->arch && (!machine || arch / 10 == choice->arch / 10);
}

static void look_at_entry(void *context, struct tsr_span part, uint32_t arch)
{
    struct choice *choice = context;
    (void)arch;
    choice->found = true;
    scan(choice->globals, part);
}

/* False: nothing in the image was understood. */
static bool scan_image(struct tsr_globals *globals, struct tsr_span image, uint32_t arch)
{
    if (image.size < 4)
        return false;
    if (!tsr_fatbin_is(image)) {
        scan(globals, image);
        return true;
    }
    struct choice choice = {.globals = globals, .arch = arch, .machine = true};
    CUresult result = tsr_fatbin_each(image, is_wanted, look_at_entry, &choice);
    choice.machine = choice.found;
    if (result == CUDA_SUCCESS && !choice.found)
        result = tsr_fatbin_each(image, is_wanted, look_at_entry, &choice);
    return result == CUDA_SUCCESS && choice.found;
}

struct tsr_globals *tsr_globals_read(const void *image, size_t bytes, uint32_t arch)
{
    struct tsr_globals *globals = calloc(1, sizeof *globals);
    if (!globals)
        return NULL;
    if (!scan_image(globals, (struct tsr_span){image, bytes}, arch))
        globals->every = TSR_GLOBALS_ALL;
    if (globals->failed) {
        tsr_globals_destroy(globals);
        return NULL;
    }
    close_over_calls(globals);
    find_stored_addresses(globals);
    return globals;
}

static void free_name(uint64_t key, void *value, void *argument)
{
    (void)key, (void)argument;
    free(value);
}

void tsr_globals_destroy(struct tsr_globals *globals)
{
    if (!globals)
        return;
    for (size_t i = 0; i < globals->functions.count; i++)
        tsr_vec_fini(&globals->functions.data[i].calls);
    tsr_vec_fini(&globals->functions);
    tsr_vec_fini(&globals->pointers);
    tsr_map_each(&globals->names, free_name, NULL);
    tsr_map_fini(&globals->names);
    free(globals);
}

struct tsr_references tsr_globals_function(const struct tsr_globals *globals, const char *name)
{
    const struct tsr_globals_name *found = tsr_globals_find(globals, name, strlen(name));
    if (!found || found->kind != TSR_NAME_FUNCTION)
        return (struct tsr_references){TSR_GLOBALS_ALL, UINT64_MAX};
    const struct tsr_references *own = &globals->functions.data[found->number].own;
    uint64_t used = own->variables | globals->every_one;
    struct tsr_references use = {.flags = own->flags | globals->every | (used & globals->state ? TSR_GLOBALS_STATE : 0)};
    if (globals->stores_addresses)
        use.flags |= TSR_GLOBALS_STORED | (use.flags & TSR_GLOBALS_FOLLOWS ? TSR_GLOBALS_ADDRESS : 0);
    use.flags &= TSR_GLOBALS_ALL;
    for (; used; used &= used - 1)
        use.variables |= globals->known_by[__builtin_ctzll(used)];
    return use;
}

bool tsr_globals_leads_to(const struct tsr_globals *globals, const char *variable)
{
    const struct tsr_globals_name *found = tsr_globals_find(globals, variable, strlen(variable));
    bool unknown = globals->every & TSR_GLOBALS_STATE;
    for (size_t i = 0; i < globals->functions.count; i++)
        unknown |= (globals->functions.data[i].own.flags & TSR_GLOBALS_STATE) != 0;
    return unknown || (found && (found->kind != TSR_NAME_VARIABLE || found->managed || found->bit >= 0));
}
