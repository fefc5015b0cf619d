/*
 * Modules with state, which come and go: variables, functions called by address, the heap. Addresses of functions, of objects with virtual functions,
 * of variables and of heap memory stay in tables from one launch to the next, which may be another thread's and in another stream.
 */
#include "kernels.h"
#include "program.h"

enum state_function {
    BUMP,
    PEEK,
    LOOK,
    REMEMBER,
    APPLY,
    OBJECTS_MAKE,
    INVOKE,
    KEEP_ADDRESS,
    BY_ADDRESS,
    HEAP_MAKE,
    HEAP_USE,
    HEAP_FREE
};
static const char *const state_names[STATE_FUNCTIONS] = {"bump",       "peek",      "look",     "remember",
                                                         "apply",      "objects",   "invoke",   "keep_address",
                                                         "by_address", "heap_make", "heap_use", "heap_free"};
#define VARIABLE_WORDS 64u
#define HEAP_WORDS 128u

static uint32_t number_of(const struct worker *worker, const struct module *module)
{
    return (uint32_t)(module - worker->program->modules);
}

static void load(struct worker *worker, struct module *module, struct draw *from)
{
    const char *text = state_ptx[draw(from, 3)];
    bool library = one_in(from, 3), done;
    *module = (struct module){.sync = {.writer = NO_STREAM, .events = {module->sync.events[0], module->sync.events[1]}},
                              .generation = module->generation + 1};
    say(worker, "module %u: load as %s", number_of(worker, module), library ? "library" : "module");
    if (library)
        done = CU(cuLibraryLoadData(&module->library, text, NULL, NULL, 0, NULL, NULL, 0));
    else
        done = CU(cuModuleLoadData(&module->module, text));
    for (uint32_t i = 0; i < STATE_FUNCTIONS && done; i++)
        done = library ? CU(cuLibraryGetKernel((CUkernel *)(void *)&module->functions[i], module->library, state_names[i]))
                       : CU(cuModuleGetFunction(&module->functions[i], module->module, state_names[i]));
    module->loaded = done;
}

static void unload(struct worker *worker, struct module *module, struct draw *from)
{
    say(worker, "module %u: unload", number_of(worker, module));
    host_wait(worker, &module->sync, true, from);
    if (module->library)
        CU(cuLibraryUnload(module->library));
    else
        CU(cuModuleUnload(module->module));
    module->loaded = false;
}

static struct module *pick_module(struct worker *worker, struct draw *from)
{
    uint32_t first = draw(from, MODULES);
    struct draw loading = {scramble(from->state)};
    for (uint32_t i = 0; i < MODULES; i++) {
        struct module *module = &worker->program->modules[(first + i) % MODULES];
        if (!owns(worker, (first + i) % MODULES, OWN_MODULES))
            continue;
        if (!module->loaded)
            load(worker, module, &loading);
        return module->loaded ? module : NULL;
    }
    return NULL;
}

static struct table *pick_table(struct worker *worker, struct draw *from)
{
    uint32_t first = draw(from, TABLES);
    while (!owns(worker, first % TABLES, OWN_TABLES))
        first++;
    struct table *table = &worker->program->tables[first % TABLES];
    if (!table->base)
        CU(cuMemAlloc(&table->base, 8 * TABLE_ENTRIES));
    return table->base ? table : NULL;
}

static bool launch(struct worker *worker, const struct module *module, enum state_function function, uint32_t words,
                   uint32_t stream, void **parameters)
{
    CUstream into = stream_of(worker, stream);
    return succeeded(worker,
                     cuLaunchKernel(module->functions[function], (words + 63) / 64, 1, 1, 64, 1, 1, 0, into, parameters, NULL),
                     state_names[function]);
}

static bool loads_modules(const struct worker *worker, enum feature feature)
{
    return uses(worker->program, FEATURE_modules) && uses(worker->program, feature);
}

void op_load(struct worker *worker, struct draw *from)
{
    if (loads_modules(worker, FEATURE_modules))
        pick_module(worker, from);
}

void op_unload(struct worker *worker, struct draw *from)
{
    struct module *module = loads_modules(worker, FEATURE_modules) ? pick_module(worker, from) : NULL;
    if (module)
        unload(worker, module, from);
}

/* A function that changes the module's variables or, given a slot, reads them. */
static void use_variables(struct worker *worker, struct draw *from, enum state_function function)
{
    struct module *module = loads_modules(worker, FEATURE_variables) ? pick_module(worker, from) : NULL;
    struct slot *slot = pick_slot(worker, from, FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from), words = VARIABLE_WORDS, salt = draw(from, 1000);
    if (!module || !slot)
        return;
    CUdeviceptr to = window(slot);
    void *bump[] = {&words, &salt}, *read[] = {&to, &words};
    say(worker, "%s: module %u, slot %u, %s", state_names[function], number_of(worker, module), slot_number(worker, slot),
        stream_name(stream));
    order(worker, &module->sync, stream, function == BUMP, from);
    if (function != BUMP)
        order(worker, &slot->sync, stream, true, from);
    launch(worker, module, function, words, stream, function == BUMP ? bump : read);
}

void op_bump(struct worker *worker, struct draw *from)
{
    use_variables(worker, from, BUMP);
}

void op_peek(struct worker *worker, struct draw *from)
{
    use_variables(worker, from, PEEK);
}

void op_look(struct worker *worker, struct draw *from)
{
    use_variables(worker, from, LOOK);
}

static CUdeviceptr variable(struct worker *worker, const struct module *module, bool constant)
{
    const char *name = constant ? "constants" : "counters";
    CUdeviceptr address = 0;
    size_t bytes = 0;
    if (module->library)
        CU(cuLibraryGetGlobal(&address, &bytes, module->library, name));
    else
        CU(cuModuleGetGlobal(&address, &bytes, module->module, name));
    return bytes == 4 * VARIABLE_WORDS ? address : 0;
}

static void read_variable(struct worker *worker, struct module *module, CUdeviceptr address, struct draw *from)
{
    uint32_t words[VARIABLE_WORDS] = {0};
    host_wait(worker, &module->sync, false, from);
    CU(cuMemcpyDtoH(words, address, sizeof words));
    worker->digest = digest_bytes(worker->digest, words, sizeof words);
}

static void write_variable(struct worker *worker, struct module *module, CUdeviceptr address, struct draw *from)
{
    uint32_t words[VARIABLE_WORDS];
    for (uint32_t i = 0; i < VARIABLE_WORDS; i++)
        words[i] = draw(from, 1000);
    order(worker, &module->sync, LEGACY, true, from);
    CU(cuMemcpyHtoD(address, words, sizeof words));
}

/* The program has the address of a variable and uses it as any other. */
void op_global(struct worker *worker, struct draw *from)
{
    struct module *module = loads_modules(worker, FEATURE_globals) ? pick_module(worker, from) : NULL;
    struct slot *slot = pick_slot(worker, from, FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from), way = draw(from, 4);
    bool constant = way < 2 && one_in(from, 2);
    CUdeviceptr address = module && slot ? variable(worker, module, constant) : 0;
    if (!address)
        return;
    struct slot counters = {.base = address, .words = VARIABLE_WORDS};
    say(worker, "variable of module %u: %s, slot %u, %s", number_of(worker, module),
        (const char *[]){"read", "written", "to a slot", "from a slot"}[way], slot_number(worker, slot), stream_name(stream));
    if (way == 0) {
        read_variable(worker, module, address, from);
    } else if (way == 1) {
        write_variable(worker, module, address, from);
    } else {
        order(worker, &module->sync, stream, way == 3, from);
        order(worker, &slot->sync, stream, way == 2, from);
        CU(way == 2 ? launch_mix(worker, stream_of(worker, stream), 0, slot, &counters, from)
                    : launch_mix(worker, stream_of(worker, stream), 0, &counters, slot, from));
    }
}

/* A launch leaves addresses in a table. */
static void store(struct worker *worker, struct draw *from, enum feature feature, enum state_function function,
                  enum content content)
{
    struct module *module = loads_modules(worker, feature) ? pick_module(worker, from) : NULL;
    struct table *table = module ? pick_table(worker, from) : NULL;
    uint32_t stream = draw_stream(worker, from), words = TABLE_ENTRIES, salt = draw(from, 1000);
    if (!table || table->content == HEAP)
        return;
    void *parameters[] = {&table->base, &words, &salt};
    say(worker, "%s: module %u, table %u, %s", state_names[function], number_of(worker, module),
        (uint32_t)(table - worker->program->tables), stream_name(stream));
    order(worker, &module->sync, stream, false, from);
    order(worker, &table->sync, stream, true, from);
    if (launch(worker, module, function, words, stream, parameters)) {
        table->content = content;
        table->module = number_of(worker, module);
        table->generation = module->generation;
    }
}

/* Another launch uses them, of the same module or, of the heap, any. */
static void use_stored(struct worker *worker, struct draw *from, enum feature feature, enum state_function function,
                       enum content content, uint32_t most_words)
{
    struct module *module = loads_modules(worker, feature) ? pick_module(worker, from) : NULL;
    struct table *table = module ? pick_table(worker, from) : NULL;
    struct slot *slot = pick_slot(worker, from, FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from);
    if (!table || !slot || table->content != content)
        return;
    if (content != HEAP)
        module = &worker->program->modules[table->module];
    if (!owns(worker, number_of(worker, module), OWN_MODULES) || !module->loaded ||
        (content != HEAP && module->generation != table->generation))
        return;
    CUdeviceptr to = window(slot);
    uint32_t words = slot->words < most_words ? slot->words : most_words;
    void *parameters[] = {&to, &table->base, &words};
    say(worker, "%s: module %u, table %u, slot %u, %s", state_names[function], number_of(worker, module),
        (uint32_t)(table - worker->program->tables), slot_number(worker, slot), stream_name(stream));
    order(worker, &module->sync, stream, content == ADDRESS, from);
    order(worker, &table->sync, stream, content == HEAP, from);
    order(worker, &slot->sync, stream, true, from);
    launch(worker, module, function, words, stream, parameters);
}

void op_remember(struct worker *worker, struct draw *from)
{
    store(worker, from, FEATURE_indirect, REMEMBER, FUNCTIONS);
}

void op_apply(struct worker *worker, struct draw *from)
{
    use_stored(worker, from, FEATURE_indirect, APPLY, FUNCTIONS, UINT32_MAX);
}

void op_objects(struct worker *worker, struct draw *from)
{
    store(worker, from, FEATURE_virtual, OBJECTS_MAKE, OBJECTS);
}

void op_invoke(struct worker *worker, struct draw *from)
{
    use_stored(worker, from, FEATURE_virtual, INVOKE, OBJECTS, UINT32_MAX);
}

void op_keep_address(struct worker *worker, struct draw *from)
{
    store(worker, from, FEATURE_addresses, KEEP_ADDRESS, ADDRESS);
}

void op_by_address(struct worker *worker, struct draw *from)
{
    use_stored(worker, from, FEATURE_addresses, BY_ADDRESS, ADDRESS, VARIABLE_WORDS);
}

void op_heap_make(struct worker *worker, struct draw *from)
{
    store(worker, from, FEATURE_heap, HEAP_MAKE, HEAP);
}

void op_heap_use(struct worker *worker, struct draw *from)
{
    use_stored(worker, from, FEATURE_heap, HEAP_USE, HEAP, HEAP_WORDS);
}

static void free_heap(struct worker *worker, struct table *table, struct draw *from)
{
    struct module *module = pick_module(worker, from);
    uint32_t stream = draw_stream(worker, from), words = TABLE_ENTRIES;
    void *parameters[] = {&table->base, &words};
    if (!module)
        return;
    say(worker, "heap_free: module %u, table %u, %s", number_of(worker, module), (uint32_t)(table - worker->program->tables),
        stream_name(stream));
    order(worker, &module->sync, stream, false, from);
    order(worker, &table->sync, stream, true, from);
    launch(worker, module, HEAP_FREE, words, stream, parameters);
    table->content = NOTHING;
}

void op_heap_free(struct worker *worker, struct draw *from)
{
    struct table *table = loads_modules(worker, FEATURE_heap) ? pick_table(worker, from) : NULL;
    if (table && table->content == HEAP)
        free_heap(worker, table, from);
}

/* A table of addresses of slots that the CPU writes. Only memory that all GPUs have: that is what is promised. */
void op_link(struct worker *worker, struct draw *from)
{
    struct table *table = uses(worker->program, FEATURE_pointers) ? pick_table(worker, from) : NULL;
    CUdeviceptr addresses[TABLE_ENTRIES] = {0};
    if (!table || table->content == HEAP)
        return;
    table->content = NOTHING;
    for (uint32_t i = 0; i < 4; i++) {
        const struct slot *slot = pick_slot(worker, from, FOR_KERNELS | FOR_ARENA, NULL);
        if (!slot)
            return;
        table->slots[i] = slot_number(worker, slot);
        table->generations[i] = slot->generation;
        addresses[i] = window(slot);
    }
    say(worker, "link: table %u to slots %u, %u, %u, %u", (uint32_t)(table - worker->program->tables), table->slots[0],
        table->slots[1], table->slots[2], table->slots[3]);
    order(worker, &table->sync, LEGACY, true, from);
    CU(cuMemcpyHtoD(table->base, addresses, sizeof addresses));
    table->content = POINTERS;
}

static uint32_t linked(struct worker *worker, const struct table *table, const struct slot *but, uint32_t words)
{
    for (uint32_t i = 0; i < 4; i++) {
        const struct slot *slot = &worker->program->slots[table->slots[i]];
        if (!owns(worker, table->slots[i], OWN_SLOTS) || !slot->kind || slot->generation != table->generations[i] ||
            slot == but)
            return 0;
        words = slot->words < words ? slot->words : words;
    }
    return words;
}

void op_follow(struct worker *worker, struct draw *from)
{
    struct table *table = uses(worker->program, FEATURE_pointers) ? pick_table(worker, from) : NULL;
    struct slot *to = pick_slot(worker, from, FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from), count = 4;
    uint32_t words = table && to && table->content == POINTERS ? linked(worker, table, to, to->words) : 0;
    if (words == 0)
        return;
    CUdeviceptr into = window(to);
    void *parameters[] = {&into, &table->base, &words, &count};
    say(worker, "follow: table %u to slot %u, %s", (uint32_t)(table - worker->program->tables), slot_number(worker, to),
        stream_name(stream));
    for (uint32_t i = 0; i < 4; i++)
        order(worker, &worker->program->slots[table->slots[i]].sync, stream, false, from);
    order(worker, &table->sync, stream, false, from);
    order(worker, &to->sync, stream, true, from);
    CU(cuLaunchKernel(kernel_of(worker->program, 0, FOLLOW), (words + 63) / 64, 1, 1, 64, 1, 1, 0, stream_of(worker, stream),
                      parameters, NULL));
}

/* Writes through the pointers. */
void op_chase(struct worker *worker, struct draw *from)
{
    struct table *table = uses(worker->program, FEATURE_pointers) ? pick_table(worker, from) : NULL;
    uint32_t stream = draw_stream(worker, from), count = 1 + draw(from, 4), salt = draw(from, 1000);
    uint32_t words = table && table->content == POINTERS ? linked(worker, table, NULL, UINT32_MAX) : 0;
    if (words == 0)
        return;
    void *parameters[] = {&table->base, &words, &salt, &count};
    say(worker, "chase: %u slots of table %u, %s", count, (uint32_t)(table - worker->program->tables), stream_name(stream));
    for (uint32_t i = 0; i < count; i++)
        order(worker, &worker->program->slots[table->slots[i]].sync, stream, true, from);
    order(worker, &table->sync, stream, false, from);
    CU(cuLaunchKernel(kernel_of(worker->program, 0, CHASE), (words + 63) / 64, 1, 1, 64, 1, 1, 0, stream_of(worker, stream),
                      parameters, NULL));
}

void modules_end(struct worker *worker, struct draw *from)
{
    struct program *program = worker->program;
    for (uint32_t i = 0; i < TABLES; i++) {
        struct table *table = &program->tables[i];
        if (!owns(worker, i, OWN_TABLES) || !table->base)
            continue;
        if (table->content == HEAP)
            free_heap(worker, table, from);
        host_wait(worker, &table->sync, true, from);
        CU(cuMemFree(table->base));
    }
    for (uint32_t i = 0; i < MODULES; i++)
        if (owns(worker, i, OWN_MODULES) && program->modules[i].loaded)
            unload(worker, &program->modules[i], from);
}
