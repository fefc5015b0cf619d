/* See shapes.h. */
#include "object/shapes.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"
#include "object/templates.h"

#define ROOM (TSR_SHAPES_BYTES - sizeof(struct tsr_shapes))

_Static_assert(TSR_SHAPES_OFFSET + TSR_SHAPES_BYTES == TSR_TEMPLATES_BYTES, "the end of the file");

static struct tsr_shapes *shapes; /* NULL: none */

void tsr_shapes_start(const char *path)
{
    int descriptor = shapes ? -1 : tsr_os_open_own(path, O_RDWR);
    if (descriptor < 0)
        return;
    void *mapped =
        mmap(NULL, TSR_SHAPES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, TSR_SHAPES_OFFSET);
    close(descriptor);
    if (mapped != MAP_FAILED)
        shapes = mapped;
}

/* False: so many are kept. */
static bool is_wanted(struct tsr_template_link *link, uint32_t most)
{
    return shapes && link->code && __atomic_load_n(&link->shapes, __ATOMIC_RELAXED) < most &&
           __atomic_fetch_add(&link->shapes, 1, __ATOMIC_RELAXED) < most;
}

void tsr_shapes_note(struct tsr_template_link *link, const struct tsr_shape *like, const void *parameters, uint32_t most)
{
    if (like->parameter_bytes > TSR_SHAPES_MOST_PARAMETERS || !is_wanted(link, most))
        return;
    uint32_t bytes = (uint32_t)(sizeof *like + like->parameter_bytes + 7) / 8 * 8;
    uint64_t at = __atomic_load_n(&shapes->used, __ATOMIC_RELAXED);
    if (at > ROOM || ROOM - at < bytes) /* so that it does not go on growing */
        return;
    at = __atomic_fetch_add(&shapes->used, bytes, __ATOMIC_RELAXED);
    if (at > ROOM || ROOM - at < bytes)
        return;
    struct tsr_shape *shape = (struct tsr_shape *)((char *)(shapes + 1) + at);
    memcpy(shape + 1, parameters, like->parameter_bytes);
    memcpy((char *)shape + sizeof shape->bytes, (const char *)like + sizeof like->bytes, sizeof *like - sizeof like->bytes);
    shape->code = link->code;
    shape->function = link->function;
    __atomic_store_n(&shape->bytes, bytes, __ATOMIC_RELEASE);
}

/* Another process may write what it likes: an entry is looked at in a copy. */
static uint32_t read_at(uint64_t at, struct tsr_shape *copy)
{
    const struct tsr_shape *there = (const struct tsr_shape *)((const char *)(shapes + 1) + at);
    uint32_t bytes = ROOM - at < sizeof *there ? 0 : __atomic_load_n(&there->bytes, __ATOMIC_ACQUIRE);
    if (bytes < sizeof *there || bytes % 8 || bytes > ROOM - at)
        return 0;
    *copy = *there;
    return copy->parameter_bytes <= bytes - sizeof *there && copy->parameter_bytes <= TSR_SHAPES_MOST_PARAMETERS ? bytes : 0;
}

void tsr_shapes_each(const struct tsr_template_link *link,
                     bool (*visit)(const struct tsr_shape *shape, const void *parameters, void *argument), void *argument)
{
    uint8_t parameters[TSR_SHAPES_MOST_PARAMETERS];
    struct tsr_shape shape;
    uint64_t end = shapes ? __atomic_load_n(&shapes->used, __ATOMIC_ACQUIRE) : 0;
    for (uint64_t at = 0, bytes; at < end && at < ROOM && (bytes = read_at(at, &shape)); at += bytes) {
        if (shape.code != link->code || shape.function != link->function)
            continue;
        memcpy(parameters, (const char *)(shapes + 1) + at + sizeof shape, shape.parameter_bytes);
        if (!visit(&shape, parameters, argument))
            break;
    }
}
