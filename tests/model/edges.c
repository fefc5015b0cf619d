/* The rules of streams, events and waiting, as edges between a program's operations; whatever they do not order may not conflict. */
#include "program.h"

bool stream_on_other(unsigned stream)
{
    return stream >= OTHER_LEGACY;
}

bool is_device(unsigned buffer)
{
    return buffer < PINNED_FIRST;
}

static bool enqueues(const struct op *op)
{
    switch (op->kind) {
    case LAUNCH:
    case GRAPH:
    case COPY:
    case COPY_NOW:
    case SET:
    case SET_NOW:
    case HOST_FUNCTION:
    case RECORD:
    case WAIT:
    case FLAG_WRITE:
    case FLAG_WAIT:
        return true;
    default:
        return false;
    }
}

bool writes(const struct op *op, unsigned buffer)
{
    switch (op->kind) {
    case LAUNCH:
    case GRAPH:
    case COPY:
    case COPY_NOW:
    case SET:
    case SET_NOW:
    case HOST_FUNCTION:
    case HOST_WRITE:
        return op->to == buffer;
    default:
        return false;
    }
}

bool reads(const struct op *op, unsigned buffer)
{
    switch (op->kind) {
    case LAUNCH:
    case GRAPH:
    case COPY:
    case COPY_NOW:
    case HOST_FUNCTION:
    case HOST_CHECK:
    case STREAM_CHECK:
    case EVENT_CHECK:
        return op->from == buffer;
    default:
        return false;
    }
}

static bool uses_event(const struct op *op)
{
    return op->kind == RECORD || op->kind == WAIT || op->kind == EVENT_SYNC || op->kind == EVENT_POLL ||
           op->kind == EVENT_CHECK;
}

static bool uses_stream(const struct op *op)
{
    return enqueues(op) || op->kind == STREAM_SYNC || op->kind == STREAM_POLL || op->kind == STREAM_CHECK ||
           op->kind == RECREATE;
}

static bool same_stream(const struct op *a, const struct op *b)
{
    return a->stream == b->stream && (a->stream != PER_THREAD || a->thread == b->thread);
}

static bool is_legacy(unsigned stream)
{
    return stream == LEGACY || stream == OTHER_LEGACY;
}

static bool is_blocking(unsigned stream)
{
    return stream == PER_THREAD || stream == BLOCKING_A || stream == BLOCKING_B || stream == BLOCKING_URGENT ||
           stream == OTHER_BLOCKING;
}

/* What makes the default stream and the blocking ones wait for each other: host functions do not, nor do waits that have nothing to wait for (580). */
static bool is_work(const struct op *op)
{
    switch (op->kind) {
    case LAUNCH:
    case GRAPH:
    case COPY:
    case COPY_NOW:
    case SET:
    case SET_NOW:
    case FLAG_WRITE:
    case FLAG_WAIT:
        return true;
    default:
        return false;
    }
}

/* Whether what is given to a's stream waits for what was given to b's before. */
static bool follows(const struct op *a, const struct op *b)
{
    if (same_stream(a, b))
        return true;
    return is_work(a) && is_work(b) && stream_on_other(a->stream) == stream_on_other(b->stream) &&
           ((is_legacy(a->stream) && is_blocking(b->stream)) || (is_blocking(a->stream) && is_legacy(b->stream)));
}

static unsigned last_recreation(const struct program *program, unsigned stream, unsigned before)
{
    while (before-- > 0)
        if (program->ops[before].kind == RECREATE && program->ops[before].stream == stream)
            return before + 1;
    return 0;
}

static void add_with_all_before(struct bits *bits, const struct edges *edges, unsigned i)
{
    bits_add(bits, i);
    bits_join(bits, &edges->before[i]);
}

/* All that is complete when the stream of operation i is, as it stands when i is issued. */
static struct bits stream_work(const struct edges *edges, const struct program *program, unsigned i)
{
    struct bits work = {0};
    const struct op *op = &program->ops[i];
    for (unsigned k = 0; k < i; k++)
        if (enqueues(&program->ops[k]) && bits_has(&edges->issued[i], k) && follows(op, &program->ops[k]) &&
            k >= last_recreation(program, program->ops[k].stream, i))
            add_with_all_before(&work, edges, k);
    return work;
}

/* What a wait for the stream itself waits for: work in it, not that of streams related to it. */
static struct bits own_work(const struct edges *edges, const struct program *program, unsigned i)
{
    struct bits work = {0};
    const struct op *op = &program->ops[i];
    for (unsigned k = last_recreation(program, op->stream, i); k < i; k++)
        if (enqueues(&program->ops[k]) && bits_has(&edges->issued[i], k) && same_stream(op, &program->ops[k]))
            add_with_all_before(&work, edges, k);
    return work;
}

static struct bits context_work(const struct edges *edges, const struct program *program, unsigned i)
{
    struct bits work = {0};
    for (unsigned k = 0; k < i; k++)
        if (enqueues(&program->ops[k]) && bits_has(&edges->issued[i], k) &&
            stream_on_other(program->ops[k].stream) == stream_on_other(program->ops[i].stream))
            add_with_all_before(&work, edges, k);
    return work;
}

static struct bits event_work(const struct edges *edges, const struct program *program, unsigned i)
{
    struct bits work = {0};
    for (unsigned k = i; k-- > 0;)
        if (program->ops[k].kind == RECORD && program->ops[k].event == program->ops[i].event) {
            add_with_all_before(&work, edges, k);
            break;
        }
    return work;
}

/* found: whether the value that the wait names has certainly been asked for by then. */
static struct bits flag_work(const struct edges *edges, const struct program *program, unsigned i, bool *found)
{
    struct bits work = {0};
    *found = false;
    for (unsigned k = i; k-- > 0;)
        if (program->ops[k].kind == FLAG_WRITE && program->ops[k].event == program->ops[i].event) {
            add_with_all_before(&work, edges, k);
            *found = bits_has(&edges->issued[i], k);
            break;
        }
    return work;
}

static void follow_host(struct edges *edges, const struct program *program, unsigned i)
{
    const struct op *op = &program->ops[i];
    for (unsigned k = 0; k < i; k++) {
        const struct op *other = &program->ops[k];
        if (other->thread == op->thread || op->after >> other->thread & 1) {
            bits_add(&edges->issued[i], k);
            bits_join(&edges->issued[i], &edges->issued[k]);
            bits_join(&edges->known[i], &edges->known[k]);
        }
    }
}

/* Events and streams are objects of the host: changing one needs all earlier uses issued, using one needs all earlier changes issued. */
static bool objects_in_order(const struct edges *edges, const struct program *program, unsigned i)
{
    const struct op *op = &program->ops[i];
    for (unsigned k = 0; k < i; k++) {
        const struct op *other = &program->ops[k];
        if (bits_has(&edges->issued[i], k))
            continue;
        if (uses_event(op) && uses_event(other) && op->event == other->event && (op->kind == RECORD || other->kind == RECORD))
            return false;
        if (uses_stream(op) && uses_stream(other) && op->stream == other->stream &&
            (op->kind == RECREATE || other->kind == RECREATE))
            return false;
    }
    return true;
}

static bool conflicts_with(const struct op *op, const struct op *other)
{
    for (unsigned buffer = 0; buffer < BUFFERS; buffer++)
        if ((writes(op, buffer) && (writes(other, buffer) || reads(other, buffer))) ||
            (reads(op, buffer) && writes(other, buffer)))
            return true;
    return op->kind == FLAG_WRITE && other->kind == FLAG_WRITE && op->event == other->event;
}

/* A query that says "complete" proves it for these; so the check may look at what they wrote. */
static bool check_is_sound(const struct edges *edges, const struct program *program, unsigned i)
{
    const struct op *op = &program->ops[i];
    struct bits proven = op->kind == EVENT_CHECK ? event_work(edges, program, i) : own_work(edges, program, i);
    bits_join(&proven, &edges->known[i]);
    for (unsigned k = 0; k < i; k++)
        if (writes(&program->ops[k], op->from) && !bits_has(&proven, k))
            return false;
    return true;
}

/* From pageable memory the host waits only until the bytes are staged, between devices not at all. */
static bool host_waits(const struct op *op)
{
    return !is_device(op->to) || (op->from >= PINNED_FIRST && op->from < PAGED_FIRST);
}

/* Pageable memory may be read when the copy is issued. */
static bool reads_at_once(const struct op *op, const struct op *written_by)
{
    return (op->kind == COPY || op->kind == COPY_NOW) && op->from >= PAGED_FIRST && writes(written_by, op->from);
}

bool edges_add(struct edges *edges, const struct program *program, unsigned i)
{
    const struct op *op = &program->ops[i];
    bool found = true;
    edges->issued[i] = edges->before[i] = edges->known[i] = (struct bits){0};
    follow_host(edges, program, i);
    if (!objects_in_order(edges, program, i))
        return false;
    struct bits *before = &edges->before[i], *known = &edges->known[i], work = {0};
    *before = *known;
    if (enqueues(op))
        work = stream_work(edges, program, i);
    bits_join(before, &work);
    if (op->kind == WAIT)
        work = event_work(edges, program, i);
    else if (op->kind == FLAG_WAIT)
        work = flag_work(edges, program, i, &found);
    bits_join(before, &work);
    if (op->kind == STREAM_CHECK || op->kind == EVENT_CHECK)
        found = check_is_sound(edges, program, i);
    else
        for (unsigned k = 0; k < i; k++)
            if (conflicts_with(op, &program->ops[k]) && !bits_has(reads_at_once(op, &program->ops[k]) ? known : before, k))
                return false;
    switch (op->kind) {
    case STREAM_SYNC:
    case STREAM_POLL:
        work = own_work(edges, program, i);
        break;
    case CONTEXT_SYNC:
        work = context_work(edges, program, i);
        break;
    case EVENT_SYNC:
    case EVENT_POLL:
        work = event_work(edges, program, i);
        break;
    case COPY_NOW:
        work = (struct bits){0};
        if (host_waits(op)) {
            work = *before;
            bits_add(&work, i);
        }
        break;
    case HOST_WRITE:
    case HOST_CHECK:
    case STREAM_CHECK:
    case EVENT_CHECK:
    case RECREATE:
        work = (struct bits){0};
        bits_add(&work, i);
        break;
    default:
        work = (struct bits){0};
    }
    bits_join(known, &work);
    return found;
}

bool edges_valid(const struct program *program)
{
    static struct edges edges;
    for (unsigned i = 0; i < program->count; i++)
        if (!edges_add(&edges, program, i))
            return false;
    return true;
}
