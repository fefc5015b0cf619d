/*
 * See register_number.h. An instruction has its operation in bits 0 to 11, its predicate in 12 to 15, the register that it sets in 16 to 23, a
 * first operand in 24 to 31, a number or a second operand in 32 to 63, and a further one in 64 to 71.
 */
#include "globals/register_number.h"

enum { INSTRUCTION_BYTES = 16, NO_REGISTER = 0xff, ALWAYS = 7, WIDEST_REGISTERS = 4 };
enum {
    MOVE = 0x802,
    MULTIPLY_ADD = 0x424,
    MULTIPLY_ADD_HALVES = 0x431,
    MULTIPLY_ADD_HALVES_TENSOR = 0x435,
    MOVE_SPECIAL = 0x805
};
enum { SPECIAL_ZERO = 0xff };

static uint64_t word_at(struct tsr_span code, size_t at)
{
    return tsr_read64(code.data + at);
}

/* Branches, calls, returns, and what parts and joins the threads of a warp: 0x?40 to 0x?5f. */
static bool is_control(uint64_t instruction)
{
    return (instruction & 0xe0) == 0x40;
}

/* Where it may lead, if it names a place: in words from the next instruction; since sm_90 the lowest 8 bits stand apart. */
static bool leads_into(struct tsr_span code, size_t at, size_t first, size_t last)
{
    uint64_t low = word_at(code, at), high = word_at(code, at + 8);
    int64_t words = (int64_t)((low >> 34 | high << 30) << 16) >> 16;
    uint64_t next = at + INSTRUCTION_BYTES, plain = next + (uint64_t)words * 4;
    uint64_t split = next + ((uint64_t)words << 8 | (low >> 16 & 0xff)) * 4;
    return (plain >= first && plain <= last) || (split >= first && split <= last);
}

static bool is_led_into(struct tsr_span code, size_t first, size_t last)
{
    for (size_t at = 0; at + INSTRUCTION_BYTES <= code.size; at += INSTRUCTION_BYTES)
        if (is_control(word_at(code, at)) && leads_into(code, at, first, last))
            return true;
    return false;
}

bool tsr_code_leads_to(struct tsr_span code, size_t place)
{
    return is_led_into(code, place, place);
}

/* A move, or the arithmetic that the compiler moves numbers with: 0 times 0 and the number. */
static bool sets_to_number(uint64_t low, uint64_t high, uint32_t *number)
{
    uint16_t operation = low & 0xfff;
    bool zero_times_zero = (uint8_t)(low >> 24) == NO_REGISTER && (uint8_t)high == NO_REGISTER;
    *number = operation == MOVE_SPECIAL ? 0 : (uint32_t)(low >> 32);
    if ((low >> 12 & 15) != ALWAYS)
        return false;
    switch (operation) {
    case MOVE:
        return true;
    case MOVE_SPECIAL:
        return (uint8_t)(high >> 8) == SPECIAL_ZERO;
    case MULTIPLY_ADD:
    case MULTIPLY_ADD_HALVES:
    case MULTIPLY_ADD_HALVES_TENSOR:
        return zero_times_zero;
    default:
        return false;
    }
}

bool tsr_register_number(struct tsr_span code, size_t at, uint8_t index, uint32_t *number)
{
    size_t last = at;
    while (at >= INSTRUCTION_BYTES) {
        at -= INSTRUCTION_BYTES;
        uint64_t instruction = word_at(code, at);
        uint8_t set = (uint8_t)(instruction >> 16);
        if (is_control(instruction))
            return false;
        if (set == index)
            return sets_to_number(instruction, word_at(code, at + 8), number) &&
                   !is_led_into(code, at + INSTRUCTION_BYTES, last);
        if (set < index && index - set < WIDEST_REGISTERS)
            return false; /* it may set several */
    }
    return false;
}
