/* See classes.h. */
#include "schedule/classes.h"

#include <stddef.h>

#define ALWAYS 4u            /* samples that come first */
#define RAREST 1024u         /* then each power of two, and from this one on one of so many; a power of two */
#define WEIGHT 0.25f         /* of a new sample, once there are some, */
#define WEIGHT_LESS 0.5f     /* and of one that took less: nothing makes a launch shorter than it is, and much interrupts it */
#define MOST_TIMES 2.0f      /* that a sample may be of what was known */
#define MOST_SCALE 16.0f     /* by which a function's other shapes are trusted */
#define LEAST_NS 2000.0      /* of what nothing is known */
#define BYTES_PER_NS 1000.0

static float load(const float *value)
{
    float now;
    __atomic_load(value, &now, __ATOMIC_RELAXED);
    return now;
}

static void store(float *value, float now)
{
    __atomic_store(value, &now, __ATOMIC_RELAXED);
}

static struct tsr_class *find(struct tsr_classes *classes, uint64_t key, uint32_t threads)
{
    key += key == 0;
    for (uint32_t i = 0; i < TSR_CLASS_PROBES; i++) {
        struct tsr_class *entry = &classes->entries[(key + i) % TSR_CLASSES];
        uint64_t found = __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE);
        if (!found && __atomic_compare_exchange_n(&entry->key, &found, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&entry->threads, threads, __ATOMIC_RELAXED);
            __atomic_fetch_add(&classes->used, 1, __ATOMIC_RELAXED);
            return entry;
        }
        if (found == key)
            return entry;
    }
    return NULL;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

struct tsr_class_of tsr_class_find(struct tsr_classes *classes, uint64_t function, const uint32_t grid[3],
                                   const uint32_t block[3], uint32_t shared_bytes)
{
    uint64_t of_function = mix(0, function);
    uint64_t shape = mix(mix(of_function, grid[0] | (uint64_t)grid[1] << 32), grid[2] | (uint64_t)shared_bytes << 32);
    shape = mix(shape, block[0] | (uint64_t)block[1] << 24 | (uint64_t)block[2] << 48);
    uint64_t threads = (uint64_t)grid[0] * grid[1] * grid[2] * ((uint64_t)block[0] * block[1] * block[2]);
    struct tsr_class_of of = {.threads = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX};
    of.function = find(classes, of_function, of.threads);
    of.shape = find(classes, shape, of.threads);
    return of;
}

bool tsr_class_is_due(const struct tsr_class_of *of, uint32_t gpu)
{
    struct tsr_class *counted = of->shape ? of->shape : of->function;
    if (!counted)
        return false;
    uint32_t launches = __atomic_load_n(&counted->launches[gpu], __ATOMIC_RELAXED);
    __atomic_store_n(&counted->launches[gpu], launches + 1, __ATOMIC_RELAXED);
    uint32_t period = launches < RAREST ? launches : RAREST;
    return launches < ALWAYS || ((period & (period - 1)) == 0 && launches % period == 0);
}

static float speed_of(const struct tsr_classes *classes, uint32_t gpu)
{
    float speed = load(&classes->speed[gpu]);
    return speed > 0 ? speed : 1;
}

/* As measured there, or elsewhere; 0: nowhere. */
static float known_ns(const struct tsr_classes *classes, const struct tsr_class *entry, uint32_t gpu)
{
    float ns = entry ? load(&entry->ns[gpu]) : 0;
    for (uint32_t other = 0; entry && ns <= 0 && other < TSR_GPUS; other++) {
        ns = load(&entry->ns[other]);
        if (ns > 0)
            return ns * speed_of(classes, gpu) / speed_of(classes, other);
    }
    return ns;
}

double tsr_class_ns(const struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpu, uint64_t bytes)
{
    float ns = known_ns(classes, of->shape, gpu);
    if (ns > 0)
        return (double)ns;
    if ((ns = known_ns(classes, of->function, gpu)) <= 0)
        return LEAST_NS + (double)bytes / BYTES_PER_NS;
    float scale = (float)of->threads / ((float)__atomic_load_n(&of->function->threads, __ATOMIC_RELAXED) + 1);
    scale = scale < 1 / MOST_SCALE ? 1 / MOST_SCALE : scale > MOST_SCALE ? MOST_SCALE : scale;
    return (double)(ns * scale);
}

static void blend(float *value, float now, uint32_t samples)
{
    float old = load(value);
    if (old <= 0 || (samples < ALWAYS && now < old)) /* the first one may have brought code there */
        store(value, now);
    else if (samples >= ALWAYS)
        store(value, old + (now < old ? WEIGHT_LESS : WEIGHT) * ((now < MOST_TIMES * old ? now : MOST_TIMES * old) - old));
}

/* How the GPU compares with the first one that the class is known on. */
static void compare(struct tsr_classes *classes, const struct tsr_class *entry, uint32_t gpu)
{
    for (uint32_t first = 0; first < gpu; first++) {
        float there = load(&entry->ns[first]);
        if (there <= 0)
            continue;
        float ratio = load(&entry->ns[gpu]) / there * speed_of(classes, first), old = load(&classes->speed[gpu]);
        store(&classes->speed[gpu], old <= 0 ? ratio : old + WEIGHT / 4 * (ratio - old));
        return;
    }
}

static void lower(const struct tsr_classes *classes, struct tsr_class *entry, uint32_t gpu, float ns)
{
    float known = entry ? known_ns(classes, entry, gpu) : 0;
    if (entry && (known <= 0 || ns < known))
        store(&entry->ns[gpu], ns);
}

void tsr_class_bound(struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpu, double ns)
{
    float now = ns > 1 ? (float)ns : 1;
    if (of->function && load(&of->function->ns[gpu]) <= 0)
        __atomic_store_n(&of->function->threads, of->threads, __ATOMIC_RELAXED);
    if (of->function && __atomic_load_n(&of->function->threads, __ATOMIC_RELAXED) == of->threads)
        lower(classes, of->function, gpu, now);
    lower(classes, of->shape, gpu, now);
}

void tsr_class_report(struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpu, double ns)
{
    float now = ns > 1 ? (float)ns : 1;
    if (of->function) {
        __atomic_store_n(&of->function->threads, of->threads, __ATOMIC_RELAXED);
        store(&of->function->ns[gpu], now);
    }
    if (!of->shape)
        return;
    uint32_t samples = __atomic_load_n(&of->shape->samples[gpu], __ATOMIC_RELAXED);
    blend(&of->shape->ns[gpu], now, samples);
    __atomic_store_n(&of->shape->samples[gpu], samples + 1, __ATOMIC_RELAXED);
    if (samples >= 2)
        compare(classes, of->shape, gpu);
}
