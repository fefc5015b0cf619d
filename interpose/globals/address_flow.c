/*
 * See address_flow.h. A forward data flow over single instructions: which registers may hold one of these addresses, ordinary (0 to 255) and uniform
 * ones (256 on). Of instructions that are not known here, which kind an operand is of, and how many registers are set, is not told: a source counts as both, what is set
 * holds an address if any source does, and only instructions that are known take an address out of a register. What is loaded is none, so a store to
 * any memory counts; compilers store an address whole.
 */
#include "globals/address_flow.h"

#include <stdlib.h>
#include <string.h>

enum { INSTRUCTION_BYTES = 16, NO_REGISTER = 0xff, NO_UNIFORM = 63, ALWAYS = 7, UNIFORM = 256, WORDS = 8 };
enum {
    FORM_REGISTER = 1,
    FORM_ADDEND_NUMBER = 2,
    FORM_ADDEND_CONSTANT = 3,
    FORM_NUMBER = 4,
    FORM_UNIFORM = 6,
    FORM_ADDEND_UNIFORM = 7,
    MOST_STEPS = 64,
    SIZE_64 = 5,
    SIZE_128 = 6,
    MULTIPLY_WIDE = 0x025,
    SHIFT_ADD = 0x011
};
enum {
    FIRST_CONTROL = 0x140,
    CALL_ABSOLUTE = 0x143,
    CALL_RELATIVE = 0x144,
    BRANCH = 0x147,
    BRANCH_INDEXED = 0x149,
    JUMP_INDEXED = 0x14c,
    EXIT = 0x14d,
    RETURN = 0x150,
    LAST_CONTROL = 0x15f
};
enum {
    FIRST_LOAD = 0x180,
    LOAD_CONSTANT = 0x182,
    LAST_LOAD = 0x184,
    LOAD_UNIFORM = 0x0b9,
    SPECIAL_TO_UNIFORM = 0x1c3,
    LAST_STORE = 0x188,
    FIRST_ATOMIC = 0x18a,
    LAST_ATOMIC = 0x18f,
    FIRST_GLOBAL_ATOMIC = 0x1a8,
    LAST_GLOBAL_ATOMIC = 0x1ad
};

struct held {
    uint64_t words[WORDS];
};

struct flow {
    struct tsr_span code;
    size_t count;
    struct held *before;  /* by instruction; of those that nothing leads to, none */
    bool *open;           /* has to be looked at (again) */
    struct held returned; /* by any return */
    bool again, stored, used;
};

static bool has(const struct held *held, unsigned index)
{
    return held->words[index / 64] >> (index % 64) & 1;
}

static void add(struct held *held, unsigned index)
{
    held->words[index / 64] |= 1ull << (index % 64);
}

static void take_out(struct held *held, unsigned index)
{
    held->words[index / 64] &= ~(1ull << (index % 64));
}

/* One of so many registers of a kind: 0 or UNIFORM. Of an address in a pair each half counts as one. */
static bool is_in(const struct held *held, unsigned kind, uint8_t index, unsigned registers)
{
    bool found = false;
    for (unsigned i = 0; i < registers && index + i < NO_REGISTER; i++)
        found |= (kind != UNIFORM || index + i != NO_UNIFORM) && has(held, kind + index + i);
    return found;
}

static bool in_either(const struct held *held, uint8_t index)
{
    return is_in(held, 0, index, 1) || is_in(held, UNIFORM, index, 1);
}

static bool merge(struct held *into, const struct held *from)
{
    uint64_t more = 0;
    for (int i = 0; i < WORDS; i++) {
        more |= from->words[i] & ~into->words[i];
        into->words[i] |= from->words[i];
    }
    return more != 0;
}

static void lead_to(struct flow *flow, uint64_t at, const struct held *held)
{
    size_t number = at / INSTRUCTION_BYTES;
    if (at % INSTRUCTION_BYTES == 0 && number < flow->count && merge(&flow->before[number], held))
        flow->again = flow->open[number] = true;
}

/* Both readings of the place that a branch names (register_number.c). */
static void lead_to_named(struct flow *flow, size_t at, const struct held *held)
{
    uint64_t low = tsr_read64(flow->code.data + at), high = tsr_read64(flow->code.data + at + 8);
    int64_t words = (int64_t)((low >> 34 | high << 30) << 16) >> 16;
    uint64_t next = at + INSTRUCTION_BYTES;
    lead_to(flow, next + (uint64_t)words * 4, held);
    lead_to(flow, next + ((uint64_t)words << 8 | (low >> 16 & 0xff)) * 4, held);
}

static bool is_call(struct tsr_span code, size_t number)
{
    unsigned operation = tsr_read16(code.data + number * INSTRUCTION_BYTES) & 0x1ff;
    return operation == CALL_ABSOLUTE || operation == CALL_RELATIVE;
}

static bool stores(unsigned operation)
{
    return (operation > LAST_LOAD && operation <= LAST_STORE) || (operation >= FIRST_ATOMIC && operation <= LAST_ATOMIC) ||
           (operation >= FIRST_GLOBAL_ATOMIC && operation <= LAST_GLOBAL_ATOMIC);
}

/* Registers that memory instructions move. */
static unsigned moved(struct tsr_span code, size_t at)
{
    unsigned size = tsr_read64(code.data + at + 8) >> 9 & 7;
    return size == SIZE_128 ? 4 : size == SIZE_64 ? 2 : 1;
}

/* How many ordinary registers it is known to set, from its first on; 0: that is not known. */
static unsigned sets_ordinary(struct tsr_span code, size_t at)
{
    static const uint16_t known[] = {0x002, 0x003, 0x005, 0x007, 0x008, 0x009, 0x010, 0x011, 0x012, 0x013, 0x016,
                                     0x017, 0x019, 0x020, 0x021, 0x023, 0x024, 0x025, 0x027, 0x028, 0x029, 0x02b,
                                     0x030, 0x031, 0x032, 0x035, 0x036, 0x105, 0x106, 0x108, 0x109, 0x119};
    unsigned operation = tsr_read16(code.data + at) & 0x1ff;
    if (operation >= FIRST_LOAD && operation <= LAST_LOAD)
        return moved(code, at);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i] == operation)
            return operation == MULTIPLY_WIDE ? 2 : 1;
    return 0;
}

static bool sets_uniform(unsigned operation)
{
    return (operation >= 0x080 && operation <= 0x0bf) || operation == SPECIAL_TO_UNIFORM;
}

/* Comparisons, votes, barriers, accesses, shifts, and what works on floating-point numbers or makes some: an address does not come out of these. */
static bool makes_no_address(unsigned operation)
{
    static const uint16_t known[] = {0x004, 0x006, 0x008, 0x009, 0x00b, 0x00c, 0x01c, 0x019, 0x027, 0x037, 0x03b, 0x03c,
                                     0x086, 0x08c, 0x09c, 0x118, 0x11a, 0x11d, 0x119, 0x192, 0x1a7, 0x1ae, 0x1c3, 0x1c4};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i] == operation)
            return true;
    return (operation >= 0x020 && operation <= 0x023) || (operation >= 0x028 && operation <= 0x035) ||
           (operation >= 0x03e && operation <= 0x03f) || (operation >= 0x044 && operation <= 0x047) ||
           (operation >= 0x100 && operation <= 0x113) || (operation >= FIRST_LOAD && operation <= LAST_ATOMIC) ||
           (operation >= FIRST_GLOBAL_ATOMIC && operation <= LAST_GLOBAL_ATOMIC);
}

/* Whether any of its sources may hold one. In the second operand's place stands a number, an ordinary register, or, if its form says so, a uniform one. */
static bool reads_one(const struct held *held, uint64_t low, uint64_t high, bool ordinary)
{
    uint8_t first = (uint8_t)(low >> 24), second = (uint8_t)(low >> 32), third = (uint8_t)high;
    unsigned form = low >> 9 & 7;
    if (makes_no_address(low & 0x1ff))
        return false;
    if (sets_uniform(low & 0x1ff))
        return is_in(held, UNIFORM, first, 1) || is_in(held, UNIFORM, third, 1) ||
               (form == FORM_REGISTER && is_in(held, UNIFORM, second, 1));
    if (!ordinary)
        return in_either(held, first) || in_either(held, second) || in_either(held, third);
    bool in_second = form == FORM_REGISTER  ? is_in(held, 0, second, 1)
                     : form >= FORM_UNIFORM ? is_in(held, UNIFORM, second, 1)
                                            : false;
    bool swapped = form == FORM_ADDEND_NUMBER || form == FORM_ADDEND_CONSTANT || form == FORM_ADDEND_UNIFORM;
    if ((low & 0x1ff) == MULTIPLY_WIDE) /* an index times a size, plus an address */
        return swapped ? in_second : is_in(held, 0, third, 1);
    if ((low & 0x1ff) == SHIFT_ADD)
        return in_second;
    return is_in(held, 0, first, 1) || is_in(held, 0, third, 1) || in_second;
}

/* What registers hold after an instruction that is no control flow. */
static void step(const struct flow *flow, size_t at, bool makes, struct held *held)
{
    uint64_t low = tsr_read64(flow->code.data + at), high = tsr_read64(flow->code.data + at + 8);
    unsigned operation = low & 0x1ff, set = low >> 16 & 0xff;
    bool always = (low >> 12 & 15) == ALWAYS;
    unsigned ordinary = sets_ordinary(flow->code, at);
    bool made = reads_one(held, low, high, ordinary != 0);
    for (unsigned i = 0; i < ordinary && always && set + i < NO_REGISTER; i++)
        take_out(held, set + i);
    unsigned uniform = operation == LOAD_UNIFORM ? moved(flow->code, at) : sets_uniform(operation) ? 1 : 0;
    for (unsigned i = 0; i < uniform && always && set + i < NO_REGISTER; i++)
        take_out(held, UNIFORM + set + i);
    if (!makes && !made)
        return;
    unsigned registers = ordinary ? ordinary : 2;
    for (unsigned i = 0; i < registers; i++) {
        if (set + i < NO_REGISTER && !sets_uniform(operation))
            add(held, set + i);
        if (set + i < NO_REGISTER && !ordinary)
            add(held, UNIFORM + set + i);
    }
}

static void leave(struct flow *flow, const struct held *held)
{
    if (!merge(&flow->returned, held))
        return;
    for (size_t i = 0; i < flow->count; i++)
        flow->open[i] |= is_call(flow->code, i);
    flow->again = true;
}

static void control(struct flow *flow, size_t number, struct held *held)
{
    size_t at = number * INSTRUCTION_BYTES;
    uint64_t low = tsr_read64(flow->code.data + at), high = tsr_read64(flow->code.data + at + 8);
    unsigned operation = low & 0x1ff;
    bool always = (low >> 12 & 15) == ALWAYS && (high >> 23 & 7) == ALWAYS;
    if (operation == BRANCH_INDEXED || operation == JUMP_INDEXED)
        for (size_t i = 0; i < flow->count; i++)
            lead_to(flow, i * INSTRUCTION_BYTES, held);
    else if (operation == RETURN)
        leave(flow, held);
    else if ((low >> 9 & 7) >= FORM_NUMBER)
        lead_to_named(flow, at, held);
    if (is_call(flow->code, number))
        merge(held, &flow->returned);
    if (operation == CALL_ABSOLUTE) /* what was called is of no use any more */
        take_out(held, low >> 24 & 0xff), take_out(held, ((low >> 24 & 0xff) + 1) % UNIFORM);
    if (!always || (operation != BRANCH && operation != EXIT && operation != RETURN))
        lead_to(flow, at + INSTRUCTION_BYTES, held);
}

static void pass(struct flow *flow, size_t number, const bool *makes)
{
    size_t at = number * INSTRUCTION_BYTES;
    uint64_t low = tsr_read64(flow->code.data + at), high = tsr_read64(flow->code.data + at + 8);
    unsigned operation = low & 0x1ff;
    struct held held = flow->before[number];
    flow->open[number] = false;
    if (operation >= FIRST_CONTROL && operation <= LAST_CONTROL) {
        control(flow, number, &held);
        return;
    }
    unsigned registers = moved(flow->code, at);
    bool exchanged = operation >= FIRST_ATOMIC && is_in(&held, 0, (uint8_t)high, registers);
    bool accesses = stores(operation) || (operation >= FIRST_LOAD && operation <= LAST_LOAD && operation != LOAD_CONSTANT);
    flow->used |= accesses && is_in(&held, 0, (uint8_t)(low >> 24), 1);
    flow->stored |= stores(operation) && registers > 1 && (is_in(&held, 0, (uint8_t)(low >> 32), registers) || exchanged);
    step(flow, at, makes[number], &held);
    lead_to(flow, at + INSTRUCTION_BYTES, &held);
}

/* Until the flag of the flow is set. */
static bool follow(struct flow *flow, const bool *makes, const bool *found)
{
    size_t steps = 0;
    memset(flow->open, true, flow->count);
    do {
        flow->again = false;
        for (size_t i = 0; i < flow->count && !*found; i++)
            if (flow->open[i]) {
                pass(flow, i, makes);
                steps++;
            }
    } while (flow->again && !*found && steps < MOST_STEPS * flow->count);
    return *found || flow->again;
}

static bool look(struct flow *flow, const bool *makes, const bool *found)
{
    flow->count = flow->code.size / INSTRUCTION_BYTES;
    flow->before = calloc(flow->count + 1, sizeof *flow->before);
    flow->open = calloc(flow->count + 1, sizeof *flow->open);
    bool is = !flow->before || !flow->open || follow(flow, makes, found);
    free(flow->before);
    free(flow->open);
    return is;
}

bool tsr_address_is_stored(struct tsr_span code, const bool *makes)
{
    struct flow flow = {.code = code};
    return look(&flow, makes, &flow.stored);
}

bool tsr_address_is_used(struct tsr_span code, const bool *makes)
{
    struct flow flow = {.code = code};
    return look(&flow, makes, &flow.used);
}
