/* See trace.h. A line is put together in memory and written at once, so that processes may share a file. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/format.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "base/vec.h"

#include "../space/space.h"
#include "../stream/work.h"

struct line {
    TSR_VEC(char) text;
    enum tsr_access_kind wanted;
    bool first, failed;
};

static int file = -1;
static uint64_t launches; /* engine thread only */

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    char piece[512];
    va_list values;
    va_start(values, format);
    size_t length = tsr_format_list(piece, sizeof piece, format, values);
    va_end(values);
    for (size_t i = 0; i < length && !line->failed; i++)
        line->failed = !tsr_vec_push(&line->text, piece[i]);
}

static void add_interval(void *ctx, enum tsr_access_kind kind, uint64_t begin, uint64_t end)
{
    struct line *line = ctx;
    if (kind != line->wanted)
        return;
    add(line, "%s[%llu, %llu]", line->first ? "" : ", ", (unsigned long long)begin, (unsigned long long)end);
    line->first = false;
}

static void add_accesses(struct line *line, const struct tsr_grid *grid, const char *name, enum tsr_access_kind kind)
{
    line->wanted = kind;
    line->first = true;
    add(line, ", \"%s\": [", name);
    tsr_grid_trace(grid, add_interval, line);
    add(line, "]");
}

static void add_variables(struct line *line, const struct tsr_ptx_code *code)
{
    add(line, ", \"text\": \"%016llx\", \"variables\": {", (unsigned long long)code->text_id);
    bool first = true;
    for (uint32_t i = 0; i < code->variable_count; i++) {
        if (!code->variable_address || !code->variable_address[i])
            continue;
        add(line, "%s\"%s\": %llu", first ? "" : ", ", code->variables[i].name, (unsigned long long)code->variable_address[i]);
        first = false;
    }
    add(line, "}");
}

static void add_memory(struct line *line, struct tsr_space *space)
{
    struct tsr_range range = {0};
    add(line, ", \"memory\": [");
    for (uint64_t from = 0; space && tsr_space_next(space, from, &range); from = range.base + 1)
        add(line, "%s[%llu, %llu, \"%s\"]", from ? ", " : "", (unsigned long long)range.base,
            (unsigned long long)(range.base + range.bytes), range.kind == TSR_RANGE_VMM ? "vmm" : "");
    add(line, "]");
}

static const char *const fault_names[] = {
    [TSR_FAULT_ILLEGAL_ADDRESS] = "illegal address",
    [TSR_FAULT_MISALIGNED] = "misaligned",
    [TSR_FAULT_SHARED_RANGE] = "shared range",
    [TSR_FAULT_LOCAL_RANGE] = "local range",
    [TSR_FAULT_TRAP] = "trap",
    [TSR_FAULT_ASSERT] = "assert",
    [TSR_FAULT_STACK] = "stack",
    [TSR_FAULT_INSTRUCTION] = "instruction",
    [TSR_FAULT_PC] = "program counter",
    [TSR_FAULT_DEADLOCK] = "deadlock",
};

static void add_fault(struct line *line, const struct tsr_fault *fault)
{
    if (fault->kind == TSR_FAULT_NONE)
        return;
    add(line, ", \"fault\": {\"kind\": \"%s\", \"line\": %u, ", fault_names[fault->kind], fault->line);
    add(line, "\"address\": %llu, \"bytes\": %u, \"write\": %s}", (unsigned long long)fault->address, fault->bytes,
        fault->write ? "true" : "false");
}

static void write_launch(const struct tsr_work *work, const struct tsr_grid *grid)
{
    const struct tsr_grid_desc *desc = &work->kernel.desc;
    struct line line = {0};
    add(&line, "{\"launch\": %llu, \"device\": %u, \"function\": \"", (unsigned long long)++launches, desc->device);
    add(&line, "%s", desc->function->name);
    add(&line, "\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u, \"params\": \"", desc->grid[0],
        desc->grid[1], desc->grid[2], desc->block[0], desc->block[1], desc->block[2], desc->shared_dynamic_bytes);
    for (uint32_t i = 0; i < desc->function->param_bytes; i++)
        add(&line, "%02x", work->kernel.param_bytes[i]);
    add(&line, "\"");
    add_variables(&line, desc->code);
    add_memory(&line, desc->space);
    add_accesses(&line, grid, "reads", TSR_ACCESS_READ);
    add_accesses(&line, grid, "writes", TSR_ACCESS_WRITE);
    add_accesses(&line, grid, "atomics", TSR_ACCESS_ATOMIC);
    add_fault(&line, tsr_grid_fault(grid));
    add(&line, "}\n");
    if (line.failed || !tsr_os_write_all(file, line.text.data, line.text.count))
        tsr_error("the access trace misses launch %llu", (unsigned long long)launches);
    tsr_vec_fini(&line.text);
}

void tsr_trace_start(void)
{
    const char *path = tsr_options()->access_trace;
    if (!path[0] || file >= 0)
        return;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) {
        tsr_error("the access trace %s cannot be opened (error %d)", path, errno);
        return;
    }
    tsr_exec_trace_enable(true);
    tsr_engine_observe_grids(write_launch);
}

uint64_t tsr_trace_text(const char *text, size_t length)
{
    if (file < 0)
        return 0;
    uint64_t id = tsr_hash(text, length);
    char path[4096];
    tsr_format(path, sizeof path, "%s.%016llx.ptx", tsr_options()->access_trace, (unsigned long long)id);
    int copy = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (copy < 0 || !tsr_os_write_all(copy, text, length))
        tsr_error("the access trace's copy of a module, %s, cannot be written (error %d)", path, errno);
    if (copy >= 0)
        close(copy);
    return id;
}
