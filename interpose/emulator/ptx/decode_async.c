/* Asynchronous copies and mbarriers. Copies are done at once: groups have nothing to wait for. Conventions: exec/op_keys.md. */
#include <string.h>

#include "../isa/operands.h"
#include "decode.h"

static void put_address(struct tsr_draft_insn *insn, const struct tsr_ptx_address *address)
{
    tsr_draft_use(insn, TSR_F_A, address->reg);
    insn->imm = address->imm;
    insn->flags |= address->flags;
}

/* A register that holds the whole address, displacement included. */
static uint32_t whole_address(struct tsr_load *load, const struct tsr_operand *operand, enum tsr_space_kind space,
                              uint16_t *flags)
{
    const struct tsr_statement *statement = load->draft->statement;
    struct tsr_ptx_address address = tsr_decode_address(load, operand, space);
    uint32_t bytes = space == TSR_SPACE_SHARED && !(address.flags & TSR_MEM_ADDRESS64) ? 4 : 8;
    *flags |= address.flags;
    if (address.reg == TSR_NO_REG)
        return tsr_draft_const(load, bytes, (uint64_t)address.imm);
    if (!address.imm)
        return address.reg;
    uint32_t sum = tsr_draft_temp(load, bytes);
    struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, statement, "add.u%u", bytes * 8));
    tsr_draft_def(insn, TSR_F_DST, sum);
    tsr_draft_use(insn, TSR_F_A, address.reg);
    tsr_draft_use(insn, TSR_F_B, tsr_draft_const(load, bytes, (uint64_t)address.imm));
    return sum;
}

/* cp.async.{ca,cg}.shared.global [dst], [src], size{, source size}{, ignore}{, policy} */
static void decode_copy(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    const struct tsr_operand *operands = statement->operands;
    uint32_t hint = tsr_opcode_has(opcode, "L2::cache_hint") ? 1 : 0;
    tsr_decode_count(load, statement, 3 + hint, 5 + hint);
    if (operands[2].kind != TSR_OPERAND_NUMBER)
        tsr_decode_fail(load, statement, &operands[2], "a constant size of 4, 8 or 16");
    uint64_t size = operands[2].number.bits;
    if (size != 4 && size != 8 && size != 16)
        tsr_decode_fail(load, statement, &operands[2], "a size of 4, 8 or 16");
    uint32_t source_size = TSR_NO_REG, ignore = TSR_NO_REG;
    for (uint32_t i = 3; i < statement->operand_count - hint; i++)
        if (operands[i].kind == TSR_OPERAND_REGISTER && tsr_register_bytes(load, operands[i].id) == 0)
            ignore = tsr_decode_predicate(load, &operands[i], NULL);
        else
            source_size = tsr_decode_source(load, &operands[i], TSR_T_U32);
    struct tsr_ptx_address to = tsr_decode_address(load, &operands[0], TSR_SPACE_SHARED);
    struct tsr_ptx_address from = tsr_decode_address(load, &operands[1], TSR_SPACE_GLOBAL);
    if (from.reg == TSR_NO_REG) {
        from.reg = tsr_draft_const(load, 8, (uint64_t)from.imm);
        from.imm = 0;
    }
    struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, statement, "cp.async.%u", (unsigned)size));
    put_address(insn, &to);
    tsr_draft_use(insn, TSR_F_B, from.reg);
    insn->aux = (void *)(intptr_t)from.imm;
    tsr_draft_use(insn, TSR_F_C, source_size);
    tsr_draft_use(insn, TSR_F_D, ignore);
}

/* cp.async.bulk.<dst space>.<src space>...: only the plain copies; tensors are not supported. */
static void decode_bulk(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    struct tsr_word spaces[2];
    uint32_t count = 0;
    if (tsr_opcode_has(opcode, "commit_group") || tsr_opcode_has(opcode, "wait_group") || tsr_opcode_has(opcode, "prefetch")) {
        tsr_draft_add(load, tsr_decode_op(load, statement, "nop"));
        return;
    }
    if (tsr_opcode_has(opcode, "tensor"))
        tsr_decode_unsupported(load, statement);
    for (uint32_t i = 2; i < opcode->part_count && count < 2; i++)
        if (opcode->part[i].length >= 6 &&
            (memcmp(opcode->part[i].text, "shared", 6) == 0 || memcmp(opcode->part[i].text, "global", 6) == 0))
            spaces[count++] = opcode->part[i];
    if (count < 2)
        tsr_decode_unsupported(load, statement);
    bool to_shared = *spaces[0].text == 's', from_shared = *spaces[1].text == 's',
         barrier = tsr_opcode_has(opcode, "mbarrier::complete_tx::bytes");
    uint32_t least = barrier ? 4 : 3;
    if ((!to_shared && !from_shared) || tsr_opcode_has(opcode, "multicast::cluster") || tsr_opcode_has(opcode, "cp_mask"))
        tsr_decode_unsupported(load, statement);
    tsr_decode_count(load, statement, least, least + (tsr_opcode_has(opcode, "L2::cache_hint") ? 1 : 0));
    const struct tsr_operand *operands = statement->operands;
    uint16_t flags = 0;
    uint32_t to = whole_address(load, &operands[0], to_shared ? TSR_SPACE_SHARED : TSR_SPACE_GLOBAL, &flags);
    uint32_t from = whole_address(load, &operands[1], from_shared ? TSR_SPACE_SHARED : TSR_SPACE_GLOBAL, &flags);
    uint32_t size = tsr_decode_source(load, &operands[2], TSR_T_U32);
    uint32_t state = barrier ? whole_address(load, &operands[3], TSR_SPACE_SHARED, &flags) : TSR_NO_REG;
    uint32_t *shared[3] = {to_shared ? &to : NULL, from_shared ? &from : NULL, barrier ? &state : NULL};
    for (unsigned i = 0; i < 3; i++) /* all shared addresses 64 bits when one is */
        if (flags && shared[i] && tsr_register_bytes(load, *shared[i]) == 4) {
            uint32_t wide = tsr_draft_temp(load, 8);
            tsr_decode_convert(load, wide, *shared[i], TSR_T_B32);
            *shared[i] = wide;
        }
    const char *key = !to_shared ? "s2g" : from_shared ? "s2s" : "g2s";
    struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, statement, "cp.async.bulk.%s", key));
    tsr_draft_use(insn, TSR_F_A, to);
    tsr_draft_use(insn, TSR_F_B, from);
    tsr_draft_use(insn, TSR_F_C, size);
    tsr_draft_use(insn, TSR_F_D, state);
    insn->flags |= flags;
}

void tsr_decode_cp(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    if (opcode->part_count < 3 || !tsr_word_is(opcode->part[1], "async"))
        tsr_decode_unsupported(load, statement);
    struct tsr_word kind = opcode->part[2];
    if (tsr_word_is(kind, "commit_group") || tsr_word_is(kind, "wait_group") || tsr_word_is(kind, "wait_all")) {
        tsr_draft_add(load, tsr_decode_op(load, statement, "nop"));
    } else if (tsr_word_is(kind, "mbarrier")) {
        tsr_decode_count(load, statement, 1, 1);
        enum tsr_space_kind space = opcode->space == TSR_SPACE_GENERIC ? TSR_SPACE_GENERIC : TSR_SPACE_SHARED;
        struct tsr_ptx_address address = tsr_decode_address(load, &statement->operands[0], space);
        const char *noinc = tsr_opcode_has(opcode, "noinc") ? ".noinc" : "",
                   *where = space == TSR_SPACE_SHARED ? "shared" : "generic";
        put_address(tsr_draft_add(load, tsr_decode_op(load, statement, "cp.async.mbarrier.arrive%s.%s", noinc, where)),
                    &address);
    } else if (tsr_word_is(kind, "bulk")) {
        decode_bulk(load, opcode, statement);
    } else {
        decode_copy(load, opcode, statement);
    }
}

/* ---- mbarrier ---- */

struct barrier_form {
    const char *part;     /* opcode part that names it */
    bool returns;         /* destination first: a state, or a predicate */
    uint8_t dst, operand; /* types; operand NONE when there is none, optional when `optional` */
    bool optional;
};

static const struct barrier_form barrier_forms[] = {
    {"init", false, TSR_T_NONE, TSR_T_U32, false},      {"inval", false, TSR_T_NONE, TSR_T_NONE, false},
    {"arrive", true, TSR_T_B64, TSR_T_U32, true},       {"arrive_drop", true, TSR_T_B64, TSR_T_U32, true},
    {"expect_tx", false, TSR_T_NONE, TSR_T_U32, false}, {"complete_tx", false, TSR_T_NONE, TSR_T_U32, false},
    {"test_wait", true, TSR_T_PRED, TSR_T_B64, false},  {"try_wait", true, TSR_T_PRED, TSR_T_B64, false},
};

static void decode_pending(struct tsr_load *load, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 2, 2);
    uint32_t state = tsr_decode_source(load, &statement->operands[1], TSR_T_B64);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], TSR_T_U32);
    struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, statement, "mbarrier.pending_count"));
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_A, state);
    tsr_decode_finish(load, &target);
}

void tsr_decode_mbarrier(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    const struct barrier_form *form = NULL;
    const struct tsr_operand *at = statement->operands, *end = at + statement->operand_count;
    if (tsr_opcode_has(opcode, "pending_count")) {
        decode_pending(load, statement);
        return;
    }
    for (size_t i = 0; i < sizeof barrier_forms / sizeof *barrier_forms && opcode->part_count > 1; i++)
        if (tsr_word_is(opcode->part[1], barrier_forms[i].part))
            form = &barrier_forms[i];
    if (!form)
        tsr_decode_unsupported(load, statement);
    bool waits = form->dst == TSR_T_PRED, parity = tsr_opcode_has(opcode, "parity");
    bool expects = form->dst == TSR_T_B64 && tsr_opcode_has(opcode, "expect_tx");
    const char *where = opcode->space == TSR_SPACE_SHARED ? "shared" : "generic";
    const struct tsr_op *op = tsr_decode_op(load, statement, "mbarrier.%s%s%s.%s", waits ? "test_wait" : form->part,
                                            parity ? ".parity" : "", expects ? ".expect_tx" : "", where);
    struct tsr_target target = {TSR_NO_REG, TSR_NO_REG, form->dst};
    if (form->returns && at < end && at->kind != TSR_OPERAND_ADDRESS)
        target = tsr_decode_target_or_none(load, at++, form->dst);
    else if (waits)
        tsr_decode_fail(load, statement, at, "a predicate as destination");
    if (at == end)
        tsr_decode_fail(load, statement, NULL, "an address");
    struct tsr_ptx_address address =
        tsr_decode_address(load, at++, opcode->space == TSR_SPACE_SHARED ? TSR_SPACE_SHARED : TSR_SPACE_GENERIC);
    uint32_t operand = TSR_NO_REG;
    if (form->operand != TSR_T_NONE && at < end)
        operand = tsr_decode_source(load, at++, parity ? TSR_T_U32 : form->operand);
    else if (form->operand != TSR_T_NONE && (!form->optional || expects))
        tsr_decode_fail(load, statement, NULL, "one operand more");
    if (waits && at < end) /* try_wait's time limit */
        at++;
    if (at < end)
        tsr_decode_fail(load, statement, at, "no further operands");
    if (waits && target.reg == TSR_NO_REG)
        target.reg = tsr_draft_temp(load, 0);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    put_address(insn, &address);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_B, operand);
}
