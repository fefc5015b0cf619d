/* Fragments and 8x8 matrices between registers and memory. */
#define TSR_LEVEL 0 /* the header's leveled parts are not used here */
#include "emulator/exec/matrix/matrix.h"

#include "emulator/isa/operands.h"

/* Address in the register, or the displacement alone. */
static uint64_t address_of(const struct tsr_warp *w, const struct tsr_insn *i, enum tsr_space_kind space, uint32_t lane)
{
    const unsigned char *reg = w->frame + i->a;
    uint64_t base = 0;
    if (i->a != TSR_NO_REG) {
        if (space == TSR_SPACE_SHARED && !(i->flags & TSR_MEM_ADDRESS64))
            return (uint32_t)(((const uint32_t *)(const void *)reg)[lane] + (uint32_t)i->imm);
        base = ((const uint64_t *)(const void *)reg)[lane];
    }
    return base + (uint64_t)i->imm;
}

struct place {
    uint32_t row, column;
};

/* Where element `e` of a lane's fragment lies in the matrix. */
static struct place place_of(const struct tsr_fragment *f, uint32_t lane, uint32_t e)
{
    uint32_t rows = f->transposed ? f->columns : f->rows;
    e %= (uint32_t)f->rows * f->columns / 32;
    uint32_t block = e / f->span, along = lane % 4 * f->span + e % f->span;
    uint32_t row = lane / 4 + 8 * (block % (rows / 8)), column = along + 4u * f->span * (block / (rows / 8));
    return f->transposed ? (struct place){column, row} : (struct place){row, column};
}

static uint32_t stride_of(const struct tsr_warp *w, const struct tsr_insn *i, uint32_t lane, const struct tsr_fragment *f)
{
    if (i->b != TSR_NO_REG)
        return ((const uint32_t *)(const void *)(w->frame + i->b))[lane];
    return f->column_major ? f->rows : f->columns;
}

/* Elements that one register holds. */
static uint32_t elements_of(const struct tsr_fragment *f)
{
    return f->bytes >= 4 ? 1 : 4u / f->bytes;
}

/* Whether a register's elements are neighbours in memory. */
static bool whole_registers(const struct tsr_fragment *f)
{
    return elements_of(f) == 1 || f->column_major == f->transposed;
}

typedef void move(unsigned char *reg, unsigned char *memory, uint32_t bytes);
static void move_in(unsigned char *reg, unsigned char *memory, uint32_t bytes)
{
    memcpy(reg, memory, bytes);
}
static void move_out(unsigned char *reg, unsigned char *memory, uint32_t bytes)
{
    memcpy(memory, reg, bytes);
}

static const struct tsr_insn *fragment_move(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m,
                                            const struct tsr_fragment *f, enum tsr_memory_access access, move *one)
{
    uint32_t parts = elements_of(f), reg_bytes = f->bytes > 4 ? f->bytes : 4, step = whole_registers(f) ? parts : 1;
    uint32_t bytes = f->bytes * step;
    /* A destination may be the address register: read every address first. */
    uint64_t base[32];
    uint32_t stride[32];
    for (uint32_t l = 0; l < 32; l++) {
        base[l] = address_of(w, i, f->space, l);
        stride[l] = stride_of(w, i, l, f);
    }
    for (uint32_t e = 0; e < f->registers * parts; e += step) {
        uint64_t address[32];
        unsigned char *host[32];
        for (uint32_t l = 0; l < 32; l++) {
            struct place at = place_of(f, l, e);
            uint64_t index =
                f->column_major ? (uint64_t)at.column * stride[l] + at.row : (uint64_t)at.row * stride[l] + at.column;
            address[l] = base[l] + index * f->bytes;
        }
        if (!tsr_warp_addresses(w, i, m, f->space, address, bytes, f->bytes, access, host))
            return NULL;
        for (uint32_t rest = m; rest; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(rest);
            one(w->frame + i->list[e / parts] + l * reg_bytes + e % parts * f->bytes, host[l], bytes);
        }
    }
    return i + 1;
}

const struct tsr_insn *tsr_fragment_load(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, const struct tsr_fragment *f)
{
    return fragment_move(w, i, m, f, TSR_ACCESS_MODE_READ, move_in);
}

const struct tsr_insn *tsr_fragment_store(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m,
                                          const struct tsr_fragment *f)
{
    return fragment_move(w, i, m, f, TSR_ACCESS_MODE_WRITE, move_out);
}

/* A register as an 8x8 matrix of 16-bit elements in row-major order. */
static void transpose(uint16_t out[64], const uint16_t in[64])
{
    for (uint32_t n = 0; n < 64; n++)
        out[n] = in[n % 8 * 8 + n / 8];
}

/* The rows' host addresses: row r of matrix j is given by lane 8 * j + r. */
static bool row_addresses(struct tsr_warp *w, const struct tsr_insn *i, uint32_t count, enum tsr_space_kind space,
                          enum tsr_memory_access access, unsigned char *host[32])
{
    uint64_t address[32];
    for (uint32_t l = 0; l < 8 * count; l++)
        address[l] = address_of(w, i, space, l);
    uint32_t givers = count == 4 ? UINT32_MAX : (1u << 8 * count) - 1;
    return tsr_warp_addresses(w, i, givers, space, address, 16, 16, access, host);
}

const struct tsr_insn *tsr_ldmatrix(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t count, bool trans,
                                    enum tsr_space_kind space)
{
    const struct tsr_insn *next;
    unsigned char *host[32];
    if (!tsr_matrix_together(w, i, m, &next))
        return next;
    if (!row_addresses(w, i, count, space, TSR_ACCESS_MODE_READ, host))
        return NULL;
    for (uint32_t j = 0; j < count; j++) {
        TSR_MATRIX_ALIGNED uint16_t rows[64], columns[64];
        for (uint32_t row = 0; row < 8; row++)
            memcpy(rows + 8 * row, host[8 * j + row], 16);
        if (trans)
            transpose(columns, rows);
        tsr_matrix_put(w, i->list[j], trans ? columns : rows, m);
    }
    return i + 1;
}

const struct tsr_insn *tsr_stmatrix(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t count, bool trans,
                                    enum tsr_space_kind space)
{
    const struct tsr_insn *next;
    unsigned char *host[32];
    if (!tsr_matrix_together(w, i, m, &next))
        return next;
    if (!row_addresses(w, i, count, space, TSR_ACCESS_MODE_WRITE, host))
        return NULL;
    for (uint32_t j = 0; j < count; j++) {
        uint16_t rows[64], columns[64];
        memcpy(rows, w->frame + i->list[j], sizeof rows);
        if (trans)
            transpose(columns, rows);
        for (uint32_t row = 0; row < 8; row++)
            memcpy(host[8 * j + row], (trans ? columns : rows) + 8 * row, 16);
    }
    return i + 1;
}

const struct tsr_insn *tsr_movmatrix(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m)
{
    const struct tsr_insn *next;
    TSR_MATRIX_ALIGNED uint16_t in[64], out[64];
    if (!tsr_matrix_together(w, i, m, &next))
        return next;
    memcpy(in, w->frame + i->a, sizeof in);
    transpose(out, in);
    tsr_matrix_put(w, i->dst, out, m);
    return i + 1;
}
