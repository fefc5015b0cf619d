/* See code.h: creating, linking and looking up decoded modules. */
#include "code.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "decode.h"
#include "parse.h"

struct loaded { /* what a struct tsr_ptx_code lies in */
    struct tsr_ptx_code code;
    struct tsr_arena arena;
    uint64_t *addresses;
    uint32_t *slots; /* hash of entries: index + 1 */
    uint32_t mask;
};

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static void index_entries(struct tsr_load *load, struct loaded *loaded)
{
    uint32_t size = 16;
    while (size < loaded->code.function_count * 2)
        size *= 2;
    loaded->slots = tsr_load_new(load, load->keep, uint32_t, size);
    loaded->mask = size - 1;
    for (uint32_t i = 0; i < loaded->code.function_count; i++) {
        const struct tsr_function *function = &loaded->code.functions[i];
        if (!function->entry || !function->insns)
            continue;
        uint32_t slot = hash_name(function->name) & loaded->mask;
        while (loaded->slots[slot])
            slot = (slot + 1) & loaded->mask;
        loaded->slots[slot] = i + 1;
    }
}

static const char *keep_name(struct tsr_load *load, const char *name)
{
    size_t size = strlen(name) + 1;
    return memcpy(tsr_load_alloc(load, load->keep, size, 1), name, size);
}

static void publish(struct tsr_load *load, struct loaded *loaded)
{
    struct tsr_ptx_code *code = &loaded->code;
    code->function_count = (uint32_t)load->functions.count;
    code->functions = tsr_load_new(load, load->keep, struct tsr_function, code->function_count);
    for (uint32_t i = 0; i < code->function_count; i++) {
        const struct tsr_function_load *function = &load->functions.data[i];
        const struct tsr_function *out = function->alias ? load->functions.data[function->alias_of].out : function->out;
        if (out)
            code->functions[i] = *out; /* an alias keeps the index of what it stands for */
        else
            code->functions[i] = (struct tsr_function){.index = i};
        code->functions[i].name = keep_name(load, function->name->text);
    }
    code->variable_count = (uint32_t)load->variables.count;
    code->variables = tsr_load_new(load, load->keep, struct tsr_variable, code->variable_count);
    if (code->variable_count)
        memcpy(code->variables, load->variables.data, sizeof *code->variables * code->variable_count);
    for (uint32_t i = 0; i < code->variable_count; i++)
        code->variables[i].name = keep_name(load, code->variables[i].name);
    index_entries(load, loaded);
}

static void run(struct tsr_load *load, struct loaded *loaded, const char *text, size_t length)
{
    char *copy = tsr_load_alloc(load, &load->module, length + 16, 1);
    memcpy(copy, text, length);
    load->text = (struct tsr_ptx_text){.at = copy, .end = copy + length, .line_begin = copy, .line = 1};
    tsr_parse_module(load);
    tsr_layout_module(load);
    publish(load, loaded);
}

static void fini(struct tsr_load *load)
{
    for (size_t i = 0; i < load->functions.count; i++) {
        tsr_vec_fini(&load->functions.data[i].callees);
        tsr_vec_fini(&load->functions.data[i].shared);
        tsr_vec_fini(&load->functions.data[i].shared_uses);
    }
    tsr_vec_fini(&load->functions);
    tsr_vec_fini(&load->call_lines);
    tsr_vec_fini(&load->variables);
    tsr_vec_fini(&load->shared);
    tsr_vec_fini(&load->statements);
    tsr_vec_fini(&load->labels);
    tsr_vec_fini(&load->scope_parents);
    tsr_vec_fini(&load->areas);
    tsr_vec_fini(&load->register_types);
    tsr_vec_fini(&load->draft->insns);
    tsr_vec_fini(&load->draft->consts);
    tsr_names_fini(&load->names);
    tsr_names_fini(&load->opcodes);
    tsr_arena_fini(&load->scratch);
    tsr_arena_fini(&load->module);
}

CUresult tsr_code_create(const char *text, size_t length, const struct tsr_device_desc *device, struct tsr_ptx_code **out,
                         struct tsr_ptx_error *error)
{
    struct tsr_draft draft = {0};
    struct tsr_load load = {.error = error, .device = device, .draft = &draft, .generation = 1, .result = CUDA_SUCCESS};
    struct loaded *loaded = calloc(1, sizeof *loaded);
    *error = (struct tsr_ptx_error){0};
    if (!loaded)
        return CUDA_ERROR_OUT_OF_MEMORY;
    load.code = &loaded->code;
    loaded->code.window = tsr_code_window(device);
    load.keep = &loaded->arena;
    load.names.arena = &load.module;
    load.opcodes.arena = &load.module;
    if (setjmp(load.escape) == 0)
        run(&load, loaded, text, length);
    CUresult result = load.result;
    fini(&load);
    if (result != CUDA_SUCCESS)
        tsr_code_destroy(&loaded->code);
    else
        *out = &loaded->code;
    return result;
}

void tsr_code_destroy(struct tsr_ptx_code *code)
{
    struct loaded *loaded = (struct loaded *)code;
    if (!loaded)
        return;
    tsr_arena_fini(&loaded->arena);
    free(loaded);
}

/* ---- link ---- */

static CUresult link_function(struct loaded *loaded, struct tsr_function *function)
{
    uint8_t *frame = tsr_arena_alloc(&loaded->arena, function->template_end - function->template_begin + 64, 64);
    struct tsr_const_reg *consts = (struct tsr_const_reg *)function->consts;
    if (!frame)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < function->const_count; i++) {
        struct tsr_const_reg *constant = &consts[i];
        if (constant->variable)
            constant->value += loaded->addresses[constant->variable - 1];
        uint8_t *place = frame + (constant->frame_offset - function->template_begin);
        uint32_t all = constant->value ? UINT32_MAX : 0;
        if (constant->bytes == 0)
            memcpy(place, &all, sizeof all);
        for (uint32_t lane = 0; constant->bytes && lane < 32; lane++)
            memcpy(place + lane * constant->bytes, &constant->value, constant->bytes);
    }
    function->frame_template = frame - function->template_begin;
    return CUDA_SUCCESS;
}

static void link_variable(struct loaded *loaded, const struct tsr_variable *variable)
{
    for (uint32_t i = 0; i < variable->reloc_count; i++) {
        const struct tsr_reloc *reloc = &variable->relocs[i];
        uint64_t address =
            reloc->function ? tsr_code_address(loaded->code.window, reloc->index) : loaded->addresses[reloc->index];
        address += (uint64_t)reloc->addend;
        memcpy((uint8_t *)variable->init + reloc->offset, &address, sizeof address);
    }
}

CUresult tsr_code_link(struct tsr_ptx_code *code, const uint64_t *variable_address, struct tsr_ptx_error *error)
{
    struct loaded *loaded = (struct loaded *)code;
    *error = (struct tsr_ptx_error){0};
    for (uint32_t i = 0; i < code->variable_count; i++)
        if (code->variables[i].is_extern && !variable_address[i]) {
            tsr_format(error->message, sizeof error->message, "unresolved extern variable '%s'", code->variables[i].name);
            return CUDA_ERROR_INVALID_PTX;
        }
    loaded->addresses = tsr_arena_alloc(&loaded->arena, sizeof *loaded->addresses * (code->variable_count + 1), 8);
    if (!loaded->addresses)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (code->variable_count)
        memcpy(loaded->addresses, variable_address, sizeof *loaded->addresses * code->variable_count);
    code->variable_address = loaded->addresses;
    for (uint32_t i = 0; i < code->variable_count; i++)
        link_variable(loaded, &code->variables[i]);
    for (uint32_t i = 0; i < code->function_count; i++)
        if (code->functions[i].insns && code->functions[i].index == i &&
            link_function(loaded, &code->functions[i]) != CUDA_SUCCESS)
            return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < code->function_count; i++) /* aliases */
        code->functions[i].frame_template = code->functions[code->functions[i].index].frame_template;
    return CUDA_SUCCESS;
}

const struct tsr_function *tsr_code_entry(const struct tsr_ptx_code *code, const char *name)
{
    const struct loaded *loaded = (const struct loaded *)code;
    for (uint32_t slot = hash_name(name) & loaded->mask; loaded->slots[slot]; slot = (slot + 1) & loaded->mask)
        if (strcmp(code->functions[loaded->slots[slot] - 1].name, name) == 0)
            return &code->functions[loaded->slots[slot] - 1];
    return NULL;
}

const struct tsr_variable *tsr_code_variable(const struct tsr_ptx_code *code, const char *name, uint32_t *index)
{
    for (uint32_t i = 0; i < code->variable_count; i++)
        if (strcmp(code->variables[i].name, name) == 0) {
            if (index)
                *index = i;
            return &code->variables[i];
        }
    return NULL;
}
