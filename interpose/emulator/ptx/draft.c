/* See draft.h. */
#include "draft.h"

struct tsr_draft_insn *tsr_draft_add(struct tsr_load *load, const struct tsr_op *op)
{
    struct tsr_draft *draft = load->draft;
    const struct tsr_statement *statement = draft->statement;
    if (!tsr_vec_reserve(&draft->insns, draft->insns.count + 1))
        tsr_load_memory(load);
    struct tsr_draft_insn *insn = &draft->insns.data[draft->insns.count++];
    *insn = (struct tsr_draft_insn){.op = op, .label = TSR_NO_REG, .guard = TSR_NO_REG};
    for (unsigned i = 0; i < TSR_F_COUNT; i++)
        insn->field[i] = TSR_NO_REG;
    if (statement) {
        insn->line = statement->line;
        insn->guard = statement->guard;
        insn->flags = statement->guard_not ? TSR_INSN_GUARD_NOT : 0;
    }
    return insn;
}

uint32_t tsr_draft_temp(struct tsr_load *load, uint32_t bytes)
{
    static const uint8_t types[9] = {[0] = TSR_T_PRED, [2] = TSR_T_B16, [4] = TSR_T_B32, [8] = TSR_T_B64};
    uint32_t id = (uint32_t)load->register_types.count;
    tsr_load_push(load, &load->register_types, types[bytes]);
    return id;
}

static uint32_t hash_const(const struct tsr_draft_const *constant)
{
    uint64_t hash = (constant->value + constant->bytes) * 0x9e3779b97f4a7c15ull;
    hash ^= ((uint64_t)constant->variable << 32 | constant->shared) * 0xc2b2ae3d27d4eb4full;
    return (uint32_t)(hash >> 32);
}

static void insert(struct tsr_draft *draft, uint32_t index)
{
    uint32_t slot = hash_const(&draft->consts.data[index]) & draft->const_mask;
    while (draft->const_slots[slot])
        slot = (slot + 1) & draft->const_mask;
    draft->const_slots[slot] = index + 1;
}

static void grow(struct tsr_load *load, struct tsr_draft *draft)
{
    uint32_t size = draft->const_slots ? (draft->const_mask + 1) * 2 : 64;
    draft->const_slots = tsr_load_new(load, &load->scratch, uint32_t, size);
    draft->const_mask = size - 1;
    for (uint32_t i = 0; i < draft->consts.count; i++)
        insert(draft, i);
}

static uint32_t intern(struct tsr_load *load, struct tsr_draft_const wanted)
{
    struct tsr_draft *draft = load->draft;
    if (!draft->const_slots || draft->consts.count * 2 > draft->const_mask)
        grow(load, draft);
    for (uint32_t slot = hash_const(&wanted) & draft->const_mask; draft->const_slots[slot];
         slot = (slot + 1) & draft->const_mask) {
        const struct tsr_draft_const *known = &draft->consts.data[draft->const_slots[slot] - 1];
        if (known->value == wanted.value && known->bytes == wanted.bytes && known->variable == wanted.variable &&
            known->shared == wanted.shared)
            return known->reg;
    }
    wanted.reg = tsr_draft_temp(load, wanted.bytes);
    tsr_load_push(load, &draft->consts, wanted);
    insert(draft, (uint32_t)draft->consts.count - 1);
    return wanted.reg;
}

uint32_t tsr_draft_const(struct tsr_load *load, uint32_t bytes, uint64_t value)
{
    if (bytes == 0)
        value = value != 0;
    else if (bytes < 8)
        value &= (1ull << bytes * 8) - 1;
    return intern(load, (struct tsr_draft_const){.bytes = bytes, .value = value});
}

uint32_t tsr_draft_variable(struct tsr_load *load, uint32_t variable, int64_t addend)
{
    return intern(load, (struct tsr_draft_const){.bytes = 8, .value = (uint64_t)addend, .variable = variable + 1});
}

uint32_t tsr_draft_shared(struct tsr_load *load, uint32_t shared, int64_t addend, uint32_t bytes)
{
    return intern(load, (struct tsr_draft_const){.bytes = bytes, .value = (uint64_t)addend, .shared = shared + 1});
}
