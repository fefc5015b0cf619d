/* Programs as text (one operation a line, for tests/corpus), at random, and executed by the naive interpreter. */
#include <string.h>

#include "program.h"

static const char *const kind_names[] = {
#define NAME(name) #name,
    KINDS(NAME)
#undef NAME
};

void program_print(const struct program *program, FILE *to)
{
    fprintf(to, "# kind thread after stream event to from where spin salt\n");
    for (unsigned i = 0; i < program->count; i++) {
        const struct op *op = &program->ops[i];
        fprintf(to, "%s %u %u %u %u %u %u %u %u %u\n", kind_names[op->kind], op->thread, op->after, op->stream, op->event,
                op->to, op->from, op->where, op->spin, op->salt);
    }
}

static bool kind_named(const char *name, uint8_t *kind)
{
    for (unsigned i = 0; i < KIND_COUNT; i++)
        if (strcmp(name, kind_names[i]) == 0) {
            *kind = (uint8_t)i;
            return true;
        }
    return false;
}

static bool within_limits(const struct op *op)
{
    return op->thread < THREADS && op->after < 1 << THREADS && op->stream < STREAMS && op->event < EVENTS && op->to < BUFFERS &&
           op->from < BUFFERS && op->where < 8;
}

bool program_read(struct program *program, FILE *from)
{
    char line[256], name[32];
    program->count = 0;
    while (fgets(line, sizeof line, from)) {
        unsigned value[9];
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (program->count == MOST_OPS || sscanf(line, "%31s %u %u %u %u %u %u %u %u %u", name, &value[0], &value[1], &value[2],
                                                 &value[3], &value[4], &value[5], &value[6], &value[7], &value[8]) != 10)
            return false;
        struct op *op = &program->ops[program->count++];
        *op = (struct op){.thread = (uint8_t)value[0],
                          .after = (uint8_t)value[1],
                          .stream = (uint8_t)value[2],
                          .event = (uint8_t)value[3],
                          .to = (uint8_t)value[4],
                          .from = (uint8_t)value[5],
                          .where = (uint8_t)value[6],
                          .spin = (uint16_t)value[7],
                          .salt = value[8]};
        if (!kind_named(name, &op->kind) || !within_limits(op))
            return false;
    }
    return program->count > 0;
}

struct random {
    uint64_t state;
};

static unsigned draw(struct random *random, unsigned below)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((random->state >> 33) % below);
}

static uint8_t any_of(struct random *random, unsigned first, unsigned end)
{
    return (uint8_t)(first + draw(random, end - first));
}

static uint8_t home_stream(struct random *random)
{
    return (uint8_t)draw(random, OTHER_LEGACY);
}

static enum kind draw_kind(struct random *random)
{
    static const uint8_t weights[KIND_COUNT] = {
        [LAUNCH] = 40,       [GRAPH] = 2,       [COPY] = 14,        [COPY_NOW] = 5,     [SET] = 6,        [SET_NOW] = 2,
        [HOST_FUNCTION] = 5, [RECORD] = 10,     [WAIT] = 10,        [EVENT_SYNC] = 2,   [EVENT_POLL] = 2, [EVENT_CHECK] = 3,
        [STREAM_SYNC] = 3,   [STREAM_POLL] = 2, [STREAM_CHECK] = 3, [CONTEXT_SYNC] = 1, [RECREATE] = 1,   [HOST_WRITE] = 3,
        [HOST_CHECK] = 3,    [FLAG_WRITE] = 2,  [FLAG_WAIT] = 2,
    };
    unsigned total = 0, kind = 0;
    for (unsigned i = 0; i < KIND_COUNT; i++)
        total += weights[i];
    for (unsigned at = draw(random, total); at >= weights[kind]; kind++)
        at -= weights[kind];
    return (enum kind)kind;
}

static uint8_t draw_after(struct random *random)
{
    unsigned choice = draw(random, 10);
    return choice < 6 ? 0 : choice < 8 ? (uint8_t)(1u << draw(random, THREADS)) : (1u << THREADS) - 1;
}

static void draw_kernel(struct random *random, struct op *op)
{
    if (op->kind == GRAPH)
        op->stream = home_stream(random);
    bool other = stream_on_other(op->stream);
    op->to = other ? any_of(random, OTHER_FIRST, PINNED_FIRST) : any_of(random, HOME_FIRST, OTHER_FIRST);
    op->from = other ? any_of(random, OTHER_FIRST, PINNED_FIRST) : any_of(random, HOME_FIRST, OTHER_FIRST);
    op->where = other ? KERNEL_HOME : (uint8_t)draw(random, KERNELS);
    op->spin = draw(random, 8) ? (uint16_t)draw(random, 20) : (uint16_t)draw(random, 1500);
}

static void draw_copy(struct random *random, struct op *op)
{
    bool now = op->kind == COPY_NOW;
    if (now)
        op->stream = draw(random, 2) ? LEGACY : PER_THREAD;
    do {
        op->to = any_of(random, 0, BUFFERS);
        op->from = any_of(random, 0, BUFFERS);
    } while (!is_device(op->to) && !is_device(op->from));
    op->where = (uint8_t)draw(random, now ? COPY_ROWS : COPY_WAYS);
}

static void draw_set(struct random *random, struct op *op)
{
    if (op->kind == SET_NOW)
        op->stream = draw(random, 2) ? LEGACY : PER_THREAD;
    op->to = stream_on_other(op->stream) ? any_of(random, OTHER_FIRST, PINNED_FIRST) : any_of(random, HOME_FIRST, OTHER_FIRST);
    op->where = (uint8_t)draw(random, SET_WAYS);
}

static void draw_op(struct random *random, struct op *op)
{
    *op = (struct op){.kind = (uint8_t)draw_kind(random),
                      .thread = (uint8_t)draw(random, THREADS),
                      .after = draw_after(random),
                      .stream = draw(random, 6) ? home_stream(random) : any_of(random, OTHER_LEGACY, STREAMS),
                      .event = (uint8_t)draw(random, EVENTS),
                      .salt = draw(random, 1u << 30)};
    switch (op->kind) {
    case LAUNCH:
    case GRAPH:
        draw_kernel(random, op);
        break;
    case COPY:
    case COPY_NOW:
        draw_copy(random, op);
        break;
    case SET:
    case SET_NOW:
        draw_set(random, op);
        break;
    case HOST_FUNCTION:
        op->to = any_of(random, PINNED_FIRST, BUFFERS);
        op->from = any_of(random, PINNED_FIRST, BUFFERS);
        break;
    case HOST_WRITE:
        op->to = any_of(random, PINNED_FIRST, BUFFERS);
        break;
    case HOST_CHECK:
    case STREAM_CHECK:
    case EVENT_CHECK:
        op->from = any_of(random, PINNED_FIRST, PAGED_FIRST);
        break;
    case RECREATE:
        op->stream = any_of(random, BLOCKING_A, OTHER_LEGACY);
        break;
    case RECORD:
        op->event = stream_on_other(op->stream) ? any_of(random, HOME_EVENTS, EVENTS) : (uint8_t)draw(random, HOME_EVENTS);
        break;
    case FLAG_WRITE:
    case FLAG_WAIT:
        op->stream = home_stream(random);
        op->event = (uint8_t)draw(random, FLAGS);
        break;
    default:
        break;
    }
}

static bool makes_sense(const struct op *op)
{
    bool moves =
        op->kind == LAUNCH || op->kind == GRAPH || op->kind == COPY || op->kind == COPY_NOW || op->kind == HOST_FUNCTION;
    return !(moves && op->to == op->from);
}

void program_generate(struct program *program, uint64_t seed, unsigned ops)
{
    static struct edges edges;
    struct random random = {seed * 0x9e3779b97f4a7c15ull + 1};
    draw(&random, 2);
    for (program->count = 0; program->count < ops; program->count++) {
        struct op *op = &program->ops[program->count];
        bool found = false;
        for (unsigned i = 0; i < 60 && !found; i++) {
            draw_op(&random, op);
            found = makes_sense(op) && edges_add(&edges, program, program->count);
        }
        if (!found) {
            *op = (struct op){
                .kind = CONTEXT_SYNC, .after = (1u << THREADS) - 1, .stream = draw(&random, 2) ? LEGACY : OTHER_LEGACY};
            edges_add(&edges, program, program->count);
        }
    }
}

void memory_init(struct memory *memory)
{
    for (unsigned b = 0; b < BUFFERS; b++)
        for (unsigned i = 0; i < WORDS; i++)
            memory->words[b][i] = b * 1000 + i;
}

void mix(uint32_t *to, const uint32_t *from, uint32_t salt)
{
    for (uint32_t i = 0; i < WORDS; i++)
        to[i] = to[i] * 3 + from[(i + 1) % WORDS] * 5 + salt + i;
}

static void copy(uint32_t *to, const uint32_t *from, unsigned where)
{
    if (where == COPY_PART)
        memcpy(to + 16, from + 16, WORDS);
    else if (where == COPY_ROWS)
        for (unsigned row = 0; row < 8; row++)
            memcpy(to + 8 * row, from + 8 * row, 16);
    else
        memcpy(to, from, 4 * WORDS);
}

static void set(uint32_t *to, uint32_t salt, unsigned where)
{
    uint32_t byte = salt & 0xff, half = salt & 0xffff;
    for (unsigned i = 0; i < WORDS; i++) {
        if (where == SET_8)
            to[i] = byte * 0x01010101u;
        else if (where == SET_16)
            to[i] = half * 0x00010001u;
        else if (where == SET_32 || i % 8 < 4)
            to[i] = salt;
    }
}

void interpret(const struct program *program, struct memory *memory, uint32_t seen[MOST_OPS][WORDS])
{
    for (unsigned i = 0; i < program->count; i++) {
        const struct op *op = &program->ops[i];
        uint32_t *to = memory->words[op->to], *from = memory->words[op->from];
        switch (op->kind) {
        case LAUNCH:
        case HOST_FUNCTION:
            mix(to, from, op->salt);
            break;
        case GRAPH: /* two launches, run twice */
            for (uint32_t run = 0; run < 4; run++)
                mix(to, from, op->salt + run % 2);
            break;
        case COPY:
        case COPY_NOW:
            copy(to, from, op->where);
            memcpy(seen[i], to, 4 * WORDS);
            break;
        case SET:
        case SET_NOW:
            set(to, op->salt, op->where);
            break;
        case HOST_WRITE:
            for (uint32_t w = 0; w < WORDS; w++)
                to[w] = op->salt + w;
            break;
        default:
            memcpy(seen[i], from, 4 * WORDS);
        }
    }
}
