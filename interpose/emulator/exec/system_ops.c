/*
 * The functions that every device program may call without defining them: vprintf, __assertfail, malloc, free.
 */
#include <string.h>

#include "base/os.h"
#include "groups.h"
#include "heap.h"
#include "printf.h"
#include "state.h"

typedef const struct tsr_insn insn;
#define EACH_LANE(m, l) for (uint32_t rest_ = (m), l; rest_ != 0 && (l = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)
#define STRING_BYTES 65536u /* longer ones are cut */

static unsigned char *area(const struct tsr_warp *w, const struct tsr_call_arg *arg, uint32_t l)
{
    return w->frame + arg->caller_offset + (size_t)l * ((arg->bytes + 15) & ~15u);
}

static uint64_t argument(const struct tsr_warp *w, insn *i, uint32_t n, uint32_t l)
{
    uint64_t value = 0;
    if (n < i->call->arg_count)
        memcpy(&value, area(w, &i->call->args[n], l), i->call->args[n].bytes < 8 ? i->call->args[n].bytes : 8);
    return value;
}

static void result(const struct tsr_warp *w, insn *i, uint32_t l, uint64_t value)
{
    if (i->call->result_count != 0)
        memcpy(area(w, &i->call->results[0], l), &value, i->call->results[0].bytes < 8 ? i->call->results[0].bytes : 8);
}

struct printing {
    struct tsr_warp *w;
    uint32_t lane;
    uint64_t arguments;
};

static void print_text(void *context, const char *data, size_t bytes)
{
    tsr_text_add(((struct printing *)context)->w->block->team, data, bytes);
}

static const void *print_argument(void *context, uint32_t offset, uint32_t bytes)
{
    const struct printing *printing = context;
    uint64_t available;
    const unsigned char *at = tsr_warp_peek(printing->w, printing->lane, printing->arguments + offset, &available);
    return at != NULL && available >= bytes ? at : NULL;
}

static const char *read_string(struct tsr_warp *w, uint32_t lane, uint64_t address, size_t *bytes)
{
    uint64_t available;
    const unsigned char *at = tsr_warp_peek(w, lane, address, &available);
    if (at == NULL)
        return NULL;
    *bytes = strnlen((const char *)at, available < STRING_BYTES ? available : STRING_BYTES);
    return (const char *)at;
}

static const char *print_string(void *context, uint64_t address, size_t *bytes)
{
    const struct printing *printing = context;
    return read_string(printing->w, printing->lane, address, bytes);
}

static insn *vprintf_call(struct tsr_warp *w, insn *i, uint32_t m)
{
    EACH_LANE(m, l)
    {
        struct printing printing = {.w = w, .lane = l, .arguments = argument(w, i, 1, l)};
        struct tsr_format format = {
            .context = &printing, .emit = print_text, .argument = print_argument, .string = print_string};
        size_t bytes;
        const char *text = read_string(w, l, argument(w, i, 0, l), &bytes);
        int count = text != NULL ? tsr_format_run(&format, text, bytes) : -1;
        result(w, i, l, (uint64_t)(int64_t)count);
    }
    w->progressed = true;
    return i + 1;
}

/* One line being put together for descriptor 2. */
struct line {
    char data[1024];
    size_t bytes;
};

static void line_add(struct line *line, const char *data, size_t bytes)
{
    if (bytes > sizeof line->data - line->bytes)
        bytes = sizeof line->data - line->bytes;
    memcpy(line->data + line->bytes, data, bytes);
    line->bytes += bytes;
}

static void line_add_text(struct line *line, const char *text)
{
    line_add(line, text, strlen(text));
}

static void line_add_number(struct line *line, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    line_add(line, digits + at, sizeof digits - at);
}

static void line_add_string(struct line *line, struct tsr_warp *w, uint32_t lane, uint64_t address)
{
    size_t bytes;
    const char *text = read_string(w, lane, address, &bytes);
    if (text != NULL)
        line_add(line, text, bytes);
    else
        line_add_text(line, "(unknown)");
}

static void line_add_triple(struct line *line, uint32_t x, uint32_t y, uint32_t z)
{
    line_add_text(line, "[");
    line_add_number(line, x);
    line_add_text(line, ",");
    line_add_number(line, y);
    line_add_text(line, ",");
    line_add_number(line, z);
    line_add_text(line, "]");
}

static insn *assertfail(struct tsr_warp *w, insn *i, uint32_t m)
{
    EACH_LANE(m, l)
    {
        struct line line = {.bytes = 0};
        line_add_string(&line, w, l, argument(w, i, 1, l));
        line_add_text(&line, ":");
        line_add_number(&line, (uint32_t)argument(w, i, 2, l));
        line_add_text(&line, ": ");
        line_add_string(&line, w, l, argument(w, i, 3, l));
        line_add_text(&line, ": block: ");
        line_add_triple(&line, w->block->ctaid[0], w->block->ctaid[1], w->block->ctaid[2]);
        line_add_text(&line, ", thread: ");
        line_add_triple(&line, w->control->tid[0][l], w->control->tid[1][l], w->control->tid[2][l]);
        line_add_text(&line, " Assertion `");
        line_add_string(&line, w, l, argument(w, i, 0, l));
        line_add_text(&line, "` failed.\n");
        tsr_os_write_all(2, line.data, line.bytes);
    }
    return tsr_warp_fault(w, i, (unsigned)__builtin_ctz(m), TSR_FAULT_ASSERT, 0, 0, false);
}

static insn *malloc_call(struct tsr_warp *w, insn *i, uint32_t m)
{
    EACH_LANE(m, l)
    result(w, i, l, tsr_heap_allocate(argument(w, i, 0, l)));
    w->progressed = true;
    return i + 1;
}

static insn *free_call(struct tsr_warp *w, insn *i, uint32_t m)
{
    EACH_LANE(m, l)
    {
        uint64_t address = argument(w, i, 0, l);
        if (address != 0 && !tsr_heap_free(address))
            return tsr_warp_fault(w, i, l, TSR_FAULT_TRAP, address, 0, true);
    }
    w->progressed = true;
    return i + 1;
}

static const struct tsr_op ops[] = {
    TSR_OP_ROW("sys.vprintf", vprintf_call, TSR_C_CONTROL),
    TSR_OP_ROW("sys.assertfail", assertfail, TSR_C_CONTROL),
    TSR_OP_ROW("sys.malloc", malloc_call, TSR_C_CONTROL),
    TSR_OP_ROW("sys.free", free_call, TSR_C_CONTROL),
};
TSR_OP_GROUP(tsr_system_ops, ops);
