/*
 * Uses of variables in machine code of sm_70 and later, without disassembling it. Instructions are 16 bytes; one that has an operand in constant
 * memory, as bits 9 to 11 tell, has the bank in bits 54 to 58. Bank 3 are the program's own constants; bank 4 holds the addresses of variables and of
 * the driver's functions, relocated entry by entry. Where an operand lies within bank 4 depends on the instruction: each reading of the field
 * counts. What a register points to is the number that it was last set to (register_number.h); where that cannot be told, every entry counts
 * whose place the register is ever set to.
 *
 * Machine code does not tell loads from stores here: a variable in global memory that is used counts as written, unless it is a text or a
 * table that the compiler made.
 *
 * Code that is called through a register is called by CALL.REL, whose number is a table's or that of a place of this kernel; functions of the driver, by
 * CALL.ABS with what bank 4 has. Jumps through tables (BRX) and returns are none. The addresses that are taken of functions are plain numbers; but a
 * kernel's section has copies of those functions, which nothing calls by name.
 *
 * A kernel's section holds copies of all that it calls, also through pointers. Functions with a section of their own are of code that is still
 * to be linked.
 */
#include <stdlib.h>
#include <string.h>

#include "globals/address_flow.h"
#include "globals/register_number.h"
#include "globals/globals_object.h"

enum { SYMBOL_BYTES = 24, INSTRUCTION_BYTES = 16 };
enum { TYPE_SYMTAB = 2, TYPE_RELA = 4, TYPE_REL = 9 };
enum { SYMBOL_OBJECT = 1, SYMBOL_FUNCTION = 2 };
enum { INFO_LONG = 4, INFO_EXTERNS = 15, MACHINE_MIN = 70, MACHINE_UNIFORM = 100, OTHER_ENTRY = 0x10 };
enum { FORM_CONSTANT_LAST = 3, FORM_CONSTANT = 5, BARRIER = 0x1d };
enum { CALL_ABSOLUTE = 0x143, CALL_RELATIVE = 0x144, FORM_REGISTER = 1, FORM_NUMBER = 4, CONTROL = 0x40, CONTROL_MASK = 0xe0 };
enum {
    LOAD_ANY = 0x180,
    LOAD_GLOBAL = 0x181,
    LOAD_LOCAL = 0x183,
    LOAD_SHARED = 0x184,
    ATOMIC_ANY = 0x18a,
    ATOMIC_GLOBAL = 0x1a8,
    EXCHANGE_ANY = 0x18b,
    EXCHANGE_GLOBAL = 0x1a9,
    ADDRESS_SIZE = 5
};
enum { LOAD_CONSTANT = 0xb82, LOAD_UNIFORM = 0x7ac, ALWAYS_ZERO = 0xff };

struct symbol {
    const char *name;
    uint8_t type, other;
    uint16_t section;
    uint64_t value; /* where it begins in its section */
};

struct entry { /* of bank 4 */
    uint64_t offset;
    struct symbol symbol;
};

struct elf {
    struct tsr_globals *globals;
    uint32_t machine; /* its GPU, for example 90 */
    TSR_VEC(struct tsr_elf_section) sections;
    TSR_VEC(size_t) kernels; /* by section; 0: it has none; once it is read, its number among the functions + 1 */
    const struct tsr_elf_section *symbols;
    TSR_VEC(struct entry) entries;
};

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool read_sections(struct elf *elf, struct tsr_span file)
{
    struct tsr_elf_sections sections;
    if (!tsr_elf_sections_read(file, &sections))
        return false;
    for (uint32_t i = 0; i < sections.count; i++) {
        struct tsr_elf_section section = tsr_elf_section(&sections, i);
        if (!section.name || !section.inside)
            return false;
        if (!tsr_vec_push(&elf->sections, section) || !tsr_vec_push(&elf->kernels, 0)) {
            elf->globals->failed = true;
            return false;
        }
    }
    for (size_t i = 0; i < elf->sections.count; i++)
        if (elf->sections.data[i].type == TYPE_SYMTAB)
            elf->symbols = &elf->sections.data[i];
    return elf->symbols && elf->symbols->link < elf->sections.count;
}

static bool read_symbol(const struct elf *elf, uint64_t index, struct symbol *out)
{
    if (index >= elf->symbols->bytes.size / SYMBOL_BYTES)
        return false;
    const uint8_t *at = elf->symbols->bytes.data + index * SYMBOL_BYTES;
    *out = (struct symbol){tsr_elf_text(elf->sections.data[elf->symbols->link].bytes, tsr_read32(at)), at[4] & 15, at[5],
                           tsr_read16(at + 6), tsr_read64(at + 8)};
    return out->name != NULL;
}

/* NULL: the symbol is defined elsewhere. */
static const struct tsr_elf_section *section_of(const struct elf *elf, const struct symbol *symbol)
{
    return symbol->section && symbol->section < elf->sections.count ? &elf->sections.data[symbol->section] : NULL;
}

/* What the compiler made and nobody writes: texts, and the tables of CUDA's mathematical functions. */
static bool is_made(const char *name)
{
    return begins(name, "__cudart_") || begins(name, "__cr_") || begins(name, "$str") || begins(name, "__unnamed_") ||
           strstr(name, "__PRETTY_FUNCTION__") || strstr(name, "__FUNCTION__") || strstr(name, "__func__");
}

/* Its bit, or 0 for what is no variable, or one that nobody can write. */
static uint64_t bit_of(const struct elf *elf, const struct symbol *symbol)
{
    const struct tsr_elf_section *section = section_of(elf, symbol);
    bool global = section && begins(section->name, ".nv.global"), constant = section && begins(section->name, ".nv.constant3");
    if (symbol->type != SYMBOL_OBJECT || (!global && !constant) || is_made(symbol->name))
        return 0;
    struct tsr_globals_name *name = tsr_globals_add(elf->globals, symbol->name, strlen(symbol->name), TSR_NAME_VARIABLE);
    if (!name)
        return 0;
    uint64_t bit = tsr_globals_bit(elf->globals, name);
    if (global)
        elf->globals->state |= bit;
    return bit;
}

static void note(const struct elf *elf, struct tsr_globals_function_record *use, const struct symbol *symbol)
{
    const struct tsr_elf_section *section = section_of(elf, symbol);
    if (symbol->type == SYMBOL_FUNCTION)
        use->own.flags |= symbol->section ? 0 : tsr_globals_extern(symbol->name, strlen(symbol->name));
    else if (symbol->type == SYMBOL_OBJECT)
        use->own.variables |= bit_of(elf, symbol);
    else if (section && (begins(section->name, ".nv.global") || begins(section->name, ".nv.constant3")))
        use->own.flags |= TSR_GLOBALS_STATE; /* somewhere in it */
}

static void note_every_entry(const struct elf *elf, struct tsr_globals_function_record *use, bool functions_only)
{
    for (size_t i = 0; i < elf->entries.count; i++)
        if (!functions_only || elf->entries.data[i].symbol.type == SYMBOL_FUNCTION)
            note(elf, use, &elf->entries.data[i].symbol);
}

/* Whether the pair of registers that the instruction sets is called, as the text stands, before anything else is done with it. */
static bool is_called(struct tsr_span code, size_t at)
{
    uint8_t index = code.data[at + 2];
    for (at += INSTRUCTION_BYTES; at + INSTRUCTION_BYTES <= code.size; at += INSTRUCTION_BYTES) {
        const uint8_t *instruction = code.data + at;
        unsigned operation = tsr_read16(instruction) & 0x1ff, form = tsr_read16(instruction) >> 9 & 7;
        if (operation == CALL_ABSOLUTE && form == FORM_REGISTER)
            return instruction[3] == index;
        bool second = form == FORM_REGISTER && (instruction[4] | 1) == (index | 1);
        if ((instruction[2] | 1) == (index | 1) || (instruction[3] | 1) == (index | 1) || second ||
            (instruction[8] | 1) == (index | 1))
            return false;
    }
    return false;
}

/* MOV, CS2R, and the arithmetic that the compiler moves numbers with. */
static bool moves(uint16_t instruction)
{
    uint8_t kind = (uint8_t)instruction;
    return kind == 0x02 || kind == 0x05 || kind == 0x24 || kind == 0x31 || kind == 0x35;
}

/* Whether the register is ever set to the number; to 0 also by naming the register that is always 0. */
static bool is_set_to(struct tsr_span code, uint8_t index, uint64_t number)
{
    for (size_t at = 0; at + INSTRUCTION_BYTES <= code.size; at += INSTRUCTION_BYTES) {
        uint32_t operand = tsr_read32(code.data + at + 4);
        bool zero = number == 0 && (operand == 0 || operand == ALWAYS_ZERO) && moves(tsr_read16(code.data + at));
        if (code.data[at + 2] == index && (zero || (number && operand == number)))
            return true;
    }
    return false;
}

/* What an operand in bank 4 is that a register points to, where the instruction at `at` reads it. */
static void note_indexed(const struct elf *elf, struct tsr_globals_function_record *use, struct tsr_span code, size_t at,
                         uint8_t index)
{
    uint32_t number;
    bool called = is_called(code, at), any = false,
         one = elf->machine < MACHINE_UNIFORM && tsr_register_number(code, at, index, &number);
    for (size_t i = 0; i < elf->entries.count; i++)
        if (called && elf->entries.data[i].symbol.type != SYMBOL_FUNCTION)
            continue;
        else if (one ? elf->entries.data[i].offset == number : is_set_to(code, index, elf->entries.data[i].offset)) {
            note(elf, use, &elf->entries.data[i].symbol);
            any = true;
        }
    if (!any)
        note_every_entry(elf, use, called);
}

static void note_operand(const struct elf *elf, struct tsr_globals_function_record *use, struct tsr_span code, size_t at)
{
    uint64_t instruction = tsr_read64(code.data + at);
    uint16_t kind = instruction & 0xfff;
    uint64_t word = instruction >> 38 & 0xfff8, other = instruction >> 37 & 0xfff8; /* entries have 8 bytes */
    uint8_t index = (uint8_t)(instruction >> 24);
    bool any = false, indexed = kind == LOAD_CONSTANT && index != ALWAYS_ZERO;
    if (indexed && word == 0) {
        note_indexed(elf, use, code, at, index);
        return;
    }
    for (size_t i = 0; i < elf->entries.count && !indexed; i++)
        if ((elf->entries.data[i].offset == word && kind != LOAD_UNIFORM) ||
            (elf->entries.data[i].offset == other && kind != LOAD_CONSTANT && elf->machine >= MACHINE_UNIFORM)) {
            note(elf, use, &elf->entries.data[i].symbol);
            any = true;
        }
    if (!any)
        note_every_entry(elf, use, false);
}

static void note_constants(const struct elf *elf, struct tsr_globals_function_record *use)
{
    struct symbol symbol;
    for (uint64_t i = 0; read_symbol(elf, i, &symbol); i++) {
        const struct tsr_elf_section *section = section_of(elf, &symbol);
        if (symbol.type == SYMBOL_OBJECT && section && begins(section->name, ".nv.constant3"))
            use->own.variables |= bit_of(elf, &symbol);
    }
}

/* The bank of its operand in constant memory; -1: it has none. Barriers have their number there. */
static int bank_of(uint64_t instruction)
{
    unsigned form = instruction >> 9 & 7;
    bool constant = form == FORM_CONSTANT_LAST || form == FORM_CONSTANT;
    return constant && (instruction & 0xff) != BARRIER ? (int)(instruction >> 54 & 31) : -1;
}

/* Whether the pair of registers was last set, as the text stands, to an entry of bank 4. */
static bool is_from_entry(struct tsr_span code, size_t at, uint8_t index)
{
    while (at >= INSTRUCTION_BYTES) {
        at -= INSTRUCTION_BYTES;
        uint64_t instruction = tsr_read64(code.data + at);
        if ((uint8_t)(instruction >> 16) == index && (instruction & CONTROL_MASK) != CONTROL)
            return bank_of(instruction) == 4;
    }
    return false;
}

static bool calls_through_register(struct tsr_span code, size_t at)
{
    uint64_t instruction = tsr_read64(code.data + at);
    unsigned operation = instruction & 0x1ff, form = instruction >> 9 & 7;
    if ((operation != CALL_ABSOLUTE && operation != CALL_RELATIVE) || form == FORM_NUMBER)
        return false;
    bool driver = operation == CALL_ABSOLUTE && form == FORM_REGISTER && is_from_entry(code, at, (uint8_t)(instruction >> 24));
    return !driver && bank_of(instruction) != 4;
}

/* Whether it reads as much as an address from memory that others may have left it in, or, if that counts, from near memory. */
static bool finds_address(struct tsr_span code, size_t at, bool near)
{
    static const uint16_t operations[] = {LOAD_ANY,      LOAD_GLOBAL,     ATOMIC_ANY, EXCHANGE_ANY,
                                          ATOMIC_GLOBAL, EXCHANGE_GLOBAL, LOAD_LOCAL, LOAD_SHARED};
    size_t count = sizeof operations / sizeof operations[0] - (near ? 0 : 2);
    unsigned operation = tsr_read64(code.data + at) & 0x1ff, size = tsr_read64(code.data + at + 8) >> 9 & 7;
    for (size_t i = 0; i < count && size >= ADDRESS_SIZE; i++)
        if (operations[i] == operation)
            return true;
    return bank_of(tsr_read64(code.data + at)) == 3;
}

static void scan_code(const struct elf *elf, struct tsr_globals_function_record *use, struct tsr_span code)
{
    bool constants = false;
    for (size_t at = 0; at + INSTRUCTION_BYTES <= code.size; at += INSTRUCTION_BYTES) {
        int bank = bank_of(tsr_read64(code.data + at));
        constants |= bank == 3;
        if (bank == 4)
            note_operand(elf, use, code, at);
        if (calls_through_register(code, at))
            use->own.flags |= TSR_GLOBALS_CODE;
        if (finds_address(code, at, false))
            use->own.flags |= TSR_GLOBALS_FOLLOWS;
    }
    if (constants)
        note_constants(elf, use);
}

/* The symbols of a section's relocations, one by one. False: the end. */
static bool next_relocation(const struct elf *elf, const struct tsr_elf_section *section, size_t *at, uint64_t *offset,
                            struct symbol *symbol)
{
    size_t step = section->type == TYPE_RELA ? 24 : 16;
    for (; *at + step <= section->bytes.size; *at += step) {
        *offset = tsr_read64(section->bytes.data + *at);
        if (!read_symbol(elf, tsr_read64(section->bytes.data + *at + 8) >> 32, symbol))
            continue;
        *at += step;
        return true;
    }
    return false;
}

static bool relocates(const struct elf *elf, const struct tsr_elf_section *section, const char *what)
{
    bool is = section->type == TYPE_RELA || section->type == TYPE_REL;
    return is && section->info < elf->sections.count && begins(elf->sections.data[section->info].name, what);
}

static void read_entries(struct elf *elf)
{
    for (size_t i = 0; i < elf->sections.count; i++) {
        struct entry entry;
        size_t at = 0;
        while (relocates(elf, &elf->sections.data[i], ".nv.constant4") &&
               next_relocation(elf, &elf->sections.data[i], &at, &entry.offset, &entry.symbol))
            if (!tsr_vec_push(&elf->entries, entry))
                elf->globals->failed = true;
    }
}

static bool is_control_at(const struct tsr_elf_section *section, uint64_t at)
{
    const struct tsr_span *code = &section->bytes;
    return code->size >= INSTRUCTION_BYTES && at <= code->size - INSTRUCTION_BYTES &&
           (tsr_read64(code->data + at) & CONTROL_MASK) == CONTROL;
}

/* Relocations of its code, and the driver's functions that it is said to call. */
static void read_attached(const struct elf *elf, struct tsr_globals_function_record *use, uint16_t text)
{
    struct symbol symbol;
    uint64_t offset;
    for (size_t i = 0; i < elf->sections.count; i++) {
        const struct tsr_elf_section *section = &elf->sections.data[i];
        size_t at = 0;
        if (section->info != text)
            continue;
        while (relocates(elf, section, ".text") && next_relocation(elf, section, &at, &offset, &symbol)) {
            note(elf, use, &symbol);
            bool other = symbol.type == SYMBOL_FUNCTION && symbol.section && symbol.section != text;
            if (other && !is_control_at(&elf->sections.data[text], offset)) /* not to call it now */
                use->own.flags |= TSR_GLOBALS_CODE;
        }
        for (at = 0; begins(section->name, ".nv.info.") && at + 4 <= section->bytes.size;) {
            const uint8_t *info = section->bytes.data + at;
            size_t bytes = info[0] == INFO_LONG ? tsr_read16(info + 2) : 0;
            for (size_t k = 0; info[1] == INFO_EXTERNS && k + 4 <= bytes && at + 8 + k <= section->bytes.size; k += 4)
                if (read_symbol(elf, tsr_read32(info + 4 + k), &symbol))
                    note(elf, use, &symbol);
            at += 4 + bytes;
        }
    }
}

/* Addresses of variables in data: out of sight, and any function may have found them there. */
static void read_data(struct elf *elf)
{
    for (size_t i = 0; i < elf->sections.count; i++) {
        const struct tsr_elf_section *section = &elf->sections.data[i];
        struct symbol symbol;
        uint64_t offset;
        size_t at = 0;
        bool data = relocates(elf, section, ".nv.") && !relocates(elf, section, ".nv.constant4");
        while (data && next_relocation(elf, section, &at, &offset, &symbol)) {
            uint64_t bit = bit_of(elf, &symbol);
            elf->globals->state |= bit;
            elf->globals->stores_addresses |= bit != 0;
            if (!relocates(elf, section, ".nv.global") && !relocates(elf, section, ".nv.constant3"))
                elf->globals->every_one |= bit;
        }
    }
}

static void find_kernels(struct elf *elf)
{
    struct symbol symbol;
    for (uint64_t i = 0; read_symbol(elf, i, &symbol); i++)
        if (symbol.type == SYMBOL_FUNCTION && (symbol.other & OTHER_ENTRY) && section_of(elf, &symbol))
            elf->kernels.data[symbol.section] = SIZE_MAX;
}

static bool is_of_variable(const struct elf *elf, const struct tsr_globals_function_record *seen)
{
    return (seen->own.variables & elf->globals->state) || (seen->own.flags & TSR_GLOBALS_STATE);
}

/* Marks the instructions that get the address of a variable that can be written: from bank 4, or as a number that a relocation puts there. */
static void mark_makers(const struct elf *elf, uint16_t text, struct tsr_span code, bool *makes)
{
    for (size_t at = 0; at + INSTRUCTION_BYTES <= code.size; at += INSTRUCTION_BYTES) {
        struct tsr_globals_function_record seen = {0};
        if (bank_of(tsr_read64(code.data + at)) == 4)
            note_operand(elf, &seen, code, at);
        makes[at / INSTRUCTION_BYTES] = is_of_variable(elf, &seen);
    }
    for (size_t i = 0; i < elf->sections.count; i++) {
        const struct tsr_elf_section *section = &elf->sections.data[i];
        struct symbol symbol;
        uint64_t offset;
        size_t next = 0;
        while (section->info == text && relocates(elf, section, ".text") &&
               next_relocation(elf, section, &next, &offset, &symbol)) {
            struct tsr_globals_function_record seen = {0};
            note(elf, &seen, &symbol);
            if (offset / INSTRUCTION_BYTES < code.size / INSTRUCTION_BYTES && is_of_variable(elf, &seen))
                makes[offset / INSTRUCTION_BYTES] = true;
        }
    }
}

static bool may_store_addresses(const struct elf *elf, uint16_t text)
{
    struct tsr_span code = elf->sections.data[text].bytes;
    bool *makes = calloc(code.size / INSTRUCTION_BYTES + 1, sizeof *makes);
    if (!makes)
        return true;
    mark_makers(elf, text, code, makes);
    bool stores = tsr_address_is_stored(code, makes);
    free(makes);
    return stores;
}

/* A copy of a function that nothing calls by its name is there because its address is taken. */
static void read_copies(struct elf *elf)
{
    struct symbol symbol;
    for (uint64_t i = 0; read_symbol(elf, i, &symbol); i++) {
        const struct tsr_elf_section *section = section_of(elf, &symbol);
        size_t kernel = section ? elf->kernels.data[symbol.section] : 0;
        bool copy = symbol.type == SYMBOL_FUNCTION && !(symbol.other & OTHER_ENTRY) && kernel && kernel != SIZE_MAX;
        if (copy && !tsr_code_leads_to(section->bytes, symbol.value))
            elf->globals->functions.data[kernel - 1].own.flags |= TSR_GLOBALS_CODE;
    }
}

/* Addresses as others may have left them in memory. What this function puts into near memory, it may have found there. */
static bool may_follow_addresses(struct tsr_span code)
{
    size_t count = code.size / INSTRUCTION_BYTES;
    bool *makes = calloc(count + 1, sizeof *makes);
    if (!makes)
        return true;
    for (size_t i = 0; i < count; i++)
        makes[i] = finds_address(code, i * INSTRUCTION_BYTES, false);
    bool follows = tsr_address_is_used(code, makes);
    free(makes);
    return follows;
}

static bool any_stores(const struct tsr_globals *globals)
{
    bool stores = globals->stores_addresses;
    for (size_t i = 0; i < globals->functions.count; i++)
        stores |= (globals->functions.data[i].own.flags & TSR_GLOBALS_HEAP) != 0;
    return stores;
}

/* Looks again, closely, at those that seem to follow addresses, where it matters. */
static void read_followers(struct elf *elf)
{
    for (size_t i = 0; i < elf->kernels.count && any_stores(elf->globals); i++) {
        size_t kernel = elf->kernels.data[i];
        uint32_t *flags = kernel && kernel != SIZE_MAX ? &elf->globals->functions.data[kernel - 1].own.flags : NULL;
        if (flags && (*flags & TSR_GLOBALS_FOLLOWS) && !may_follow_addresses(elf->sections.data[i].bytes))
            *flags &= ~TSR_GLOBALS_FOLLOWS;
    }
}

static void read_functions(struct elf *elf)
{
    struct symbol symbol;
    for (uint64_t i = 0; read_symbol(elf, i, &symbol); i++) {
        const struct tsr_elf_section *section = section_of(elf, &symbol);
        bool kernel = symbol.other & OTHER_ENTRY;
        if (symbol.type != SYMBOL_FUNCTION || !section || (elf->kernels.data[symbol.section] && !kernel))
            continue;
        struct tsr_globals_function_record *use = tsr_globals_define(elf->globals, symbol.name, strlen(symbol.name));
        if (!use)
            return;
        use->callable |= !kernel;
        use->indirect = true; /* who calls whom is not looked at */
        scan_code(elf, use, section->bytes);
        read_attached(elf, use, symbol.section);
        if (kernel)
            elf->kernels.data[symbol.section] = (size_t)(use - elf->globals->functions.data) + 1;
        if ((use->own.variables & elf->globals->state) && !elf->globals->stores_addresses)
            elf->globals->stores_addresses = may_store_addresses(elf, symbol.section);
    }
}

void tsr_globals_scan_elf(struct tsr_globals *globals, struct tsr_span file)
{
    struct elf elf = {.globals = globals, .machine = tsr_elf_machine(file)};
    if (elf.machine >= MACHINE_MIN && read_sections(&elf, file)) {
        read_entries(&elf);
        find_kernels(&elf);
        read_functions(&elf);
        read_copies(&elf);
        read_data(&elf);
        read_followers(&elf);
    } else {
        globals->every |= TSR_GLOBALS_ALL;
    }
    tsr_vec_fini(&elf.entries);
    tsr_vec_fini(&elf.sections);
    tsr_vec_fini(&elf.kernels);
}
