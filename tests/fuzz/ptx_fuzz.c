/*
 * Mutates PTX and images and loads them: no input may crash, hang, read outside of itself or become unsound code. Deterministic: the
 * same seed and files give the same inputs. Build with TESSERA_SANITIZE=address,undefined. Before an input is loaded it is written to
 * the file of --current, which is what to look at after a crash; an input that takes more than ten seconds ends the program by SIGALRM.
 *
 *     ptx_fuzz [--iterations N] [--seed N] [--current FILE] CORPUS_FILE...
 *
 * What it finds becomes a file of tests/corpus.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator/isa/op.h"
#include "image/image.h"
#include "emulator/ptx/code.h"
#include "tessera/machine.h"

#define INPUT_BYTES_MAX ((size_t)1 << 20)

struct input {
    uint8_t *data;
    size_t size;
};

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t below(size_t bound)
{
    return bound ? next_random() % bound : 0;
}

/* Words that lead to other paths than random bytes do. */
static const char *const words[] = {
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ":",
    "::",
    "@",
    "!",
    "%",
    "|",
    "+",
    "-",
    "_",
    "<",
    ">",
    "=",
    "/*",
    "*/",
    "//",
    "\"",
    ".",
    "\n",
    "%r1",
    "%rd1",
    "%p1",
    "%tid.x",
    "%clock64",
    "0",
    "-1",
    "0xffffffffffffffff",
    "99999999999999999999",
    "0f3F800000",
    "0d0",
    "1e999",
    "1 / 0",
    "4294967296",
    "<1000000>",
    "[4294967295]",
    "[]",
    ".reg",
    ".b8",
    ".b16",
    ".b32",
    ".u64",
    ".f64",
    ".b128",
    ".pred",
    ".v2",
    ".v4",
    ".v8",
    ".align 3",
    ".align 1048576",
    ".param",
    ".shared",
    ".local",
    ".global",
    ".const",
    ".extern",
    ".visible",
    ".entry k",
    ".func f",
    ".alias a, b;",
    ".maxntid 0",
    ".reqntid 4294967295,2,2",
    ".branchtargets",
    ".callprototype",
    ".version 9.9",
    ".target sm_90a",
    "generic(",
    "0xff00(",
    "ld",
    "st",
    "mov",
    "call",
    "bra",
    "brx.idx",
    "ret",
    "setp",
    "atom",
    "mma",
    "cp.async",
    "mbarrier",
    "wmma",
    "ldmatrix",
    "bar.sync",
    ".volatile",
    ".shared::cta",
};

static struct input pick(const struct input *corpus, size_t count)
{
    return corpus[below(count)];
}

static void put(struct input *to, size_t at, const void *bytes, size_t size)
{
    if (at > to->size || to->size + size > INPUT_BYTES_MAX)
        return;
    memmove(to->data + at + size, to->data + at, to->size - at);
    memcpy(to->data + at, bytes, size);
    to->size += size;
}

static void cut(struct input *from, size_t at, size_t size)
{
    if (at >= from->size)
        return;
    size = size < from->size - at ? size : from->size - at;
    memmove(from->data + at, from->data + at + size, from->size - at - size);
    from->size -= size;
}

/* From one line (or 64 bytes) to another place. */
static size_t line_at(const struct input *input, size_t at, size_t *length)
{
    while (at > 0 && input->data[at - 1] != '\n')
        at--;
    size_t end = at;
    while (end < input->size && input->data[end] != '\n' && end - at < 400)
        end++;
    *length = end < input->size ? end - at + 1 : end - at;
    return at;
}

static void mutate(struct input *input, const struct input *corpus, size_t count)
{
    struct input other = pick(corpus, count);
    size_t at = below(input->size), length, from;
    const char *word = words[below(sizeof words / sizeof *words)];
    switch (below(9)) {
    case 0:
        input->data[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        input->data[at] = (uint8_t)next_random();
        break;
    case 2:
        put(input, at, word, strlen(word));
        break;
    case 3:
        cut(input, at, 1 + below(16));
        break;
    case 4:
        at = line_at(input, at, &length);
        cut(input, at, length);
        break;
    case 5:
        from = line_at(&other, below(other.size), &length);
        at = line_at(input, at, &(size_t){0});
        put(input, at, other.data + from, length);
        break;
    case 6: /* a number becomes another one */
        while (at < input->size && (input->data[at] < '0' || input->data[at] > '9'))
            at++;
        cut(input, at, 1 + below(3));
        put(input, at, word, strlen(word));
        break;
    case 7:
        if (below(8) == 0)
            input->size = at;
        break;
    default:
        if (at + 8 <= input->size)
            memcpy(input->data + at, &(uint64_t){next_random() >> below(64)}, below(2) ? 8 : 4);
    }
    if (input->size == 0)
        put(input, 0, ".", 1);
}

/* What the executor relies on: registers of lane operations lie in the frame, branches stay in the function. */
static bool is_sound(const struct tsr_function *function, const struct tsr_insn *insn)
{
    const struct tsr_op *op = tsr_op_at(insn->op);
    const uint32_t sources[4] = {insn->a, insn->b, insn->c, insn->d};
    if (insn->guard != TSR_NO_REG && insn->guard + 4 > function->frame_bytes)
        return false;
    if (strcmp(op->key, "bra") == 0)
        return insn->target >= function->insns && insn->target < function->insns + function->insn_count &&
               strcmp(tsr_op_at(insn->target->op)->key, "join") == 0;
    if (!(op->flags & TSR_OP_LANE))
        return true;
    if (insn->dst == TSR_NO_REG ? !(op->flags & TSR_OP_DST2)
                                : insn->dst + 32u * tsr_type_bytes[op->dst_type] > function->frame_bytes)
        return false;
    for (unsigned i = 0; i < op->sources; i++)
        if ((uint64_t)sources[i] + 32u * tsr_type_bytes[op->src_type[i]] > function->frame_bytes)
            return false;
    return true;
}

static void check_code(const struct tsr_ptx_code *code)
{
    for (uint32_t f = 0; f < code->function_count; f++)
        for (uint32_t i = 0; i < code->functions[f].insn_count; i++)
            if (!is_sound(&code->functions[f], &code->functions[f].insns[i])) {
                fprintf(stderr, "unsound instruction %u of %s, line %u\n", i, code->functions[f].name,
                        code->functions[f].insns[i].line);
                abort();
            }
}

static void load_text(const char *text, size_t length)
{
    static const struct tsr_device_desc device = {.compute_major = 12};
    struct tsr_ptx_code *code = NULL;
    struct tsr_ptx_error error;
    if (tsr_code_create(text, length, &device, &code, &error) != CUDA_SUCCESS)
        return;
    uint64_t *addresses = calloc(code->variable_count + 1u, sizeof *addresses);
    for (uint32_t i = 0; addresses && i < code->variable_count; i++)
        addresses[i] = 0x10000ull * (i + 1);
    if (addresses)
        tsr_code_link(code, addresses, &error);
    check_code(code);
    free(addresses);
    tsr_code_destroy(code);
}

/* In a buffer of exactly the input's size, so that the sanitizer sees every byte beyond. */
static void load(const struct input *input)
{
    uint8_t *exact = malloc(input->size);
    struct tsr_image image = {0};
    const char *reason;
    memcpy(exact, input->data, input->size);
    bool wrapper = input->size >= 4 && memcmp(exact, "\xb1\x43\x62\x46", 4) == 0; /* holds a pointer */
    alarm(10);
    load_text((const char *)exact, input->size);
    if (!wrapper && input->size && tsr_image_resolve(exact, input->size, 120, &image, &reason) == CUDA_SUCCESS) {
        load_text(image.text, image.length);
        tsr_image_fini(&image);
    }
    alarm(0);
    free(exact);
}

static void keep(const char *name, const struct input *input)
{
    FILE *stream = name ? fopen(name, "wb") : NULL;
    if (!stream)
        return;
    fwrite(input->data, 1, input->size, stream);
    fclose(stream);
}

static bool read_file(const char *name, struct input *out)
{
    FILE *stream = fopen(name, "rb");
    if (!stream)
        return false;
    out->data = malloc(INPUT_BYTES_MAX);
    out->size = out->data ? fread(out->data, 1, INPUT_BYTES_MAX / 2, stream) : 0;
    fclose(stream);
    return out->size > 0;
}

int main(int argc, char **argv)
{
    size_t iterations = 1000, count = 0;
    const char *current = NULL;
    struct input *corpus = calloc((size_t)argc, sizeof *corpus), work = {malloc(INPUT_BYTES_MAX + 64), 0};
    random_state = 1;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--iterations") == 0 && i + 1 < argc)
            iterations = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            random_state = strtoull(argv[++i], NULL, 10) * 0x9e3779b97f4a7c15ull | 1;
        else if (strcmp(argv[i], "--current") == 0 && i + 1 < argc)
            current = argv[++i];
        else if (!read_file(argv[i], &corpus[count++])) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 2;
        }
    if (!count || !work.data) {
        fprintf(stderr, "ptx_fuzz: no corpus\n");
        return 2;
    }
    for (size_t i = 0; i < count; i++) {
        keep(current, &corpus[i]);
        load(&corpus[i]);
    }
    for (size_t i = 0; i < iterations; i++) {
        struct input from = pick(corpus, count);
        memcpy(work.data, from.data, from.size);
        work.size = from.size;
        for (size_t n = 1 + below(below(4) ? 3 : 24); n > 0; n--)
            mutate(&work, corpus, count);
        keep(current, &work);
        load(&work);
    }
    for (size_t i = 0; i < count; i++)
        free(corpus[i].data);
    free(corpus);
    free(work.data);
    printf("%zu inputs from %zu files: no crash, no hang\n", iterations, count);
    return 0;
}
