/*
 * Registers share places in the frame when they are never live together: a warp's frame should stay in the first-level cache.
 *
 * Exact liveness over the basic blocks gives each register one interval of the linear instruction order; a linear scan hands out places, one
 * free list per size. Lanes diverge, but each lane follows a path of the flow graph and instructions write active lanes only, so what
 * holds for a thread holds for the warp. A guarded write does not end the old value's life. Positions: instruction i reads at 2i and writes
 * at 2i + 1; operations other than lane operations read until they have written (they may write one lane before they read another).
 *
 * Registers that live inside one block and are written there first need no bit in the sets; that is most of them. In functions whose sets
 * would be too large, or do not settle soon, the other registers live from beginning to end.
 */
#include <string.h>

#include "../isa/operands.h"
#include "decode.h"

#define SET_BITS_MAX ((uint64_t)1 << 27)
#define ROUNDS_MAX 64u
#define NONE TSR_NO_REG

enum { CLASSES = 4 }; /* 8, 4, 2 bytes, predicate */

struct block {
    uint32_t begin, end;                /* instructions */
    uint32_t next, branch;              /* successors, or NONE */
    const struct tsr_draft_insn *table; /* its targets are successors too */
    uint64_t *in, *out, *use, *def;
};

struct life {
    uint32_t first, last; /* positions */
    uint32_t global;      /* bit in the sets, or NONE */
    uint32_t block;       /* of the last reference seen, + 1 */
    bool constant;        /* has its place already */
};

struct liveness {
    struct tsr_load *load;
    struct life *lives;
    struct block *blocks;
    uint32_t *block_of; /* by instruction that begins a block */
    uint32_t block_count, global_count, words;
    uint32_t *globals; /* registers by bit */
    uint32_t current;  /* block of the instruction being visited */
};

typedef void visit_fn(struct liveness *liveness, uint32_t reg, uint32_t insn, bool write, bool kill);

static bool reads_late(const struct tsr_draft_insn *insn)
{
    return !(insn->op->flags & TSR_OP_LANE) || (insn->op->flags & TSR_OP_DST2);
}

static void visit_insn(struct liveness *liveness, uint32_t index, visit_fn *visit)
{
    const struct tsr_draft_insn *insn = &liveness->load->draft->insns.data[index];
    bool kill = insn->guard == TSR_NO_REG;
    if (!kill)
        visit(liveness, insn->guard, index, false, false);
    for (unsigned uses = insn->uses; uses; uses &= uses - 1)
        visit(liveness, insn->field[__builtin_ctz(uses)], index, false, false);
    for (uint32_t i = insn->list_defs; i < insn->list_count; i++)
        if (insn->list[i] != TSR_NO_REG)
            visit(liveness, insn->list[i], index, false, false);
    for (unsigned defs = insn->defs; defs; defs &= defs - 1)
        visit(liveness, insn->field[__builtin_ctz(defs)], index, true, kill);
    for (uint32_t i = 0; i < insn->list_defs; i++)
        if (insn->list[i] != TSR_NO_REG)
            visit(liveness, insn->list[i], index, true, kill);
}

static void for_all(struct liveness *liveness, visit_fn *visit)
{
    for (uint32_t b = 0; b < liveness->block_count; b++) {
        liveness->current = b;
        for (uint32_t i = liveness->blocks[b].begin; i < liveness->blocks[b].end; i++)
            visit_insn(liveness, i, visit);
    }
}

/* ---- blocks ---- */

static void find_blocks(struct liveness *liveness)
{
    struct tsr_load *load = liveness->load;
    const struct tsr_draft *draft = load->draft;
    const struct tsr_op *join = tsr_op_find("join", 4), *leave[2] = {tsr_op_find("ret", 3), tsr_op_find("exit", 4)};
    uint32_t count = (uint32_t)draft->insns.count, blocks = 0;
    liveness->block_of = tsr_load_new(load, &load->scratch, uint32_t, count + 1);
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        bool begins = true;
        blocks = 0;
        for (uint32_t i = 0; i < count; i++) {
            const struct tsr_draft_insn *insn = &draft->insns.data[i];
            if (begins || insn->op == join) {
                if (pass && blocks)
                    liveness->blocks[blocks - 1].end = i;
                if (pass)
                    liveness->blocks[blocks] = (struct block){.begin = i, .end = count, .next = NONE, .branch = NONE};
                liveness->block_of[i] = blocks++;
            }
            begins = insn->label != NONE || insn->table || insn->op == leave[0] || insn->op == leave[1];
        }
        if (!pass)
            liveness->blocks = tsr_load_new(load, &load->scratch, struct block, blocks);
    }
    liveness->block_count = blocks;
    for (uint32_t b = 0; b < blocks; b++) {
        struct block *block = &liveness->blocks[b];
        const struct tsr_draft_insn *last = &draft->insns.data[block->end - 1];
        bool leaves = last->label != NONE || last->table || last->op == leave[0] || last->op == leave[1];
        if ((!leaves || last->guard != TSR_NO_REG) && b + 1 < blocks)
            block->next = b + 1;
        if (last->label != NONE)
            block->branch = liveness->block_of[draft->label_insns[last->label]];
        block->table = last->table ? last : NULL;
    }
}

/* ---- references ---- */

static void visit_classify(struct liveness *liveness, uint32_t reg, uint32_t insn, bool write, bool kill)
{
    struct life *life = &liveness->lives[reg];
    if (life->constant)
        return;
    uint32_t position = 2 * insn + (write || reads_late(&liveness->load->draft->insns.data[insn]) ? 1 : 0);
    bool local = life->block ? life->block == liveness->current + 1 : write && kill;
    if (!local && life->global == NONE)
        life->global = liveness->global_count++;
    if (!life->block)
        life->first = position;
    life->block = liveness->current + 1;
    life->last = position > life->last ? position : life->last;
}

static void visit_sets(struct liveness *liveness, uint32_t reg, uint32_t insn, bool write, bool kill)
{
    uint32_t bit = liveness->lives[reg].global;
    struct block *block = &liveness->blocks[liveness->current];
    (void)insn;
    if (liveness->lives[reg].constant || bit == NONE)
        return;
    uint64_t mask = 1ull << bit % 64;
    if (!write && !(block->def[bit / 64] & mask))
        block->use[bit / 64] |= mask;
    if (write && kill)
        block->def[bit / 64] |= mask;
}

/* ---- the sets ---- */

static bool make_sets(struct liveness *liveness)
{
    struct tsr_load *load = liveness->load;
    uint32_t words = liveness->words = (liveness->global_count + 63) / 64;
    if ((uint64_t)words * 64 * liveness->block_count * 4 > SET_BITS_MAX)
        return false;
    uint64_t *sets = tsr_load_new(load, &load->scratch, uint64_t, (size_t)words * 4 * liveness->block_count);
    for (uint32_t b = 0; b < liveness->block_count; b++, sets += (size_t)words * 4) {
        struct block *block = &liveness->blocks[b];
        block->in = sets;
        block->out = sets + words;
        block->use = sets + 2 * (size_t)words;
        block->def = sets + 3 * (size_t)words;
    }
    for_all(liveness, visit_sets);
    return true;
}

static void add_successor(const struct liveness *liveness, struct block *block, uint32_t successor)
{
    const struct block *to = &liveness->blocks[successor];
    for (uint32_t w = 0; w < liveness->words; w++)
        block->out[w] |= to->in[w];
}

static bool update(const struct liveness *liveness, struct block *block)
{
    const struct tsr_draft *draft = liveness->load->draft;
    if (block->next != NONE)
        add_successor(liveness, block, block->next);
    if (block->branch != NONE)
        add_successor(liveness, block, block->branch);
    for (uint32_t i = 0; block->table && i < ((const struct tsr_branch_table *)block->table->aux)->count; i++)
        add_successor(liveness, block, liveness->block_of[draft->label_insns[block->table->table[i]->id]]);
    uint64_t changed = 0;
    for (uint32_t w = 0; w < liveness->words; w++) {
        uint64_t in = block->use[w] | (block->out[w] & ~block->def[w]);
        changed |= in ^ block->in[w];
        block->in[w] = in;
    }
    return changed;
}

static bool settle(struct liveness *liveness)
{
    bool changed = true;
    for (uint32_t round = 0; changed; round++) {
        if (round == ROUNDS_MAX)
            return false;
        changed = false;
        for (uint32_t b = liveness->block_count; b-- > 0;)
            changed |= update(liveness, &liveness->blocks[b]);
    }
    return true;
}

static void extend(struct liveness *liveness, const uint64_t *set, uint32_t position)
{
    for (uint32_t w = 0; w < liveness->words; w++)
        for (uint64_t bits = set[w]; bits; bits &= bits - 1) {
            struct life *life = &liveness->lives[liveness->globals[w * 64 + (uint32_t)__builtin_ctzll(bits)]];
            life->first = position < life->first ? position : life->first;
            life->last = position > life->last ? position : life->last;
        }
}

static void extend_all(struct liveness *liveness)
{
    uint32_t registers = (uint32_t)liveness->load->register_types.count;
    liveness->globals = tsr_load_new(liveness->load, &liveness->load->scratch, uint32_t, liveness->words * 64 + 1);
    for (uint32_t reg = 0; reg < registers; reg++)
        if (liveness->lives[reg].global != NONE)
            liveness->globals[liveness->lives[reg].global] = reg;
    for (uint32_t b = 0; b < liveness->block_count; b++) {
        extend(liveness, liveness->blocks[b].in, 2 * liveness->blocks[b].begin);
        extend(liveness, liveness->blocks[b].out, 2 * liveness->blocks[b].end - 1);
    }
}

/* ---- places ---- */

static unsigned class_of(const struct tsr_load *load, uint32_t reg)
{
    uint32_t bytes = tsr_register_bytes(load, reg);
    return bytes == 8 ? 0 : bytes == 4 ? 1 : bytes == 2 ? 2 : 3;
}

static const uint32_t class_bytes[CLASSES] = {256, 128, 64, 4};
static const uint32_t class_words[CLASSES] = {2, 1, 1, 0};

/* Places are numbered per class while scanning and become offsets when each class' size is known. */
struct scan {
    uint32_t *starts, *ends, *next_start, *next_end; /* lists of registers by position */
    uint32_t *free_places[CLASSES], free_count[CLASSES], place_count[CLASSES];
    uint32_t live_words, most_words;
};

static void scan_position(struct liveness *liveness, struct scan *scan, uint32_t position, uint32_t *offset)
{
    for (uint32_t reg = scan->starts[position]; reg != NONE; reg = scan->next_start[reg]) {
        unsigned class = class_of(liveness->load, reg);
        offset[reg] =
            scan->free_count[class] ? scan->free_places[class][--scan->free_count[class]] : scan->place_count[class]++;
        scan->live_words += class_words[class];
    }
    if (scan->live_words > scan->most_words)
        scan->most_words = scan->live_words;
    for (uint32_t reg = scan->ends[position]; reg != NONE; reg = scan->next_end[reg]) {
        unsigned class = class_of(liveness->load, reg);
        scan->free_places[class][scan->free_count[class]++] = offset[reg];
        scan->live_words -= class_words[class];
    }
}

static uint32_t hand_out(struct liveness *liveness, uint32_t *offset, uint32_t *top)
{
    struct tsr_load *load = liveness->load;
    uint32_t registers = (uint32_t)load->register_types.count, positions = 2 * (uint32_t)load->draft->insns.count;
    uint32_t *lists = tsr_load_new(load, &load->scratch, uint32_t, 2 * (size_t)positions + (2 + CLASSES) * (size_t)registers);
    struct scan scan = {.starts = lists, .ends = lists + positions, .next_start = lists + 2 * (size_t)positions};
    scan.next_end = scan.next_start + registers;
    for (unsigned class = 0; class < CLASSES; class++)
        scan.free_places[class] = scan.next_end + registers * (size_t)(class + 1);
    memset(lists, 0xff, sizeof *lists * 2 * positions);
    for (uint32_t reg = registers; reg-- > 0;) {
        const struct life *life = &liveness->lives[reg];
        if (life->constant || !life->block)
            continue;
        scan.next_start[reg] = scan.starts[life->first];
        scan.starts[life->first] = reg;
        scan.next_end[reg] = scan.ends[life->last];
        scan.ends[life->last] = reg;
    }
    for (uint32_t position = 0; position < positions; position++)
        scan_position(liveness, &scan, position, offset);
    uint32_t base[CLASSES];
    for (unsigned class = 0; class < CLASSES; class++) {
        base[class] = *top;
        *top += scan.place_count[class] * class_bytes[class];
    }
    for (uint32_t reg = 0; reg < registers; reg++) {
        unsigned class = class_of(load, reg);
        if (!liveness->lives[reg].constant && liveness->lives[reg].block)
            offset[reg] = base[class] + offset[reg] * class_bytes[class];
    }
    return scan.most_words;
}

uint32_t tsr_liveness_place(struct tsr_load *load, uint32_t *offset, uint32_t *top)
{
    uint32_t registers = (uint32_t)load->register_types.count, last = 2 * (uint32_t)load->draft->insns.count - 1;
    struct liveness liveness = {.load = load, .lives = tsr_load_new(load, &load->scratch, struct life, registers)};
    for (uint32_t reg = 0; reg < registers; reg++) {
        liveness.lives[reg].global = NONE;
        liveness.lives[reg].constant = offset[reg] != TSR_NO_REG;
    }
    find_blocks(&liveness);
    for_all(&liveness, visit_classify);
    if (make_sets(&liveness) && settle(&liveness))
        extend_all(&liveness);
    else
        for (uint32_t reg = 0; reg < registers; reg++)
            if (liveness.lives[reg].global != NONE) {
                liveness.lives[reg].first = 0;
                liveness.lives[reg].last = last;
            }
    return hand_out(&liveness, offset, top);
}
