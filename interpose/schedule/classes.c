/* See classes.h. */
#include "schedule/classes.h"

#include <stddef.h>

#define LATELY 64u /* launches, after which earlier ones count half */
#define OFTEN 4u   /* pulled: one of so many, or more */
#define ALWAYS 4u            /* samples that come first */
#define WEIGHT 0.25f         /* of a new sample, once there are some, */
#define WEIGHT_LESS 0.5f     /* and of one that took less: nothing makes a launch shorter than it is, and much interrupts it */
#define LONGER 1.25f         /* times as long as known: what comes next is a sample, too, */
#define IN_A_ROW 3u          /* and so many of these are believed: the GPU has become slower */
#define DOUBTED 16u          /* one of so many is a sample at least while GPUs differ in a class by more than they do otherwise */
#define SHORT_NS 100e3f      /* launches that say little of a GPU: what is measured of them is the host's time between events, too */
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

/* Steps of a fifth or a quarter: data may decide how many bytes there are, and what differs by less takes about as long. */
static uint32_t size_of(uint64_t bytes)
{
    uint32_t octave = bytes ? 63u - (uint32_t)__builtin_clzll(bytes) : 0;
    return bytes < 4 ? (uint32_t)bytes : octave << 2 | (uint32_t)(bytes >> (octave - 2) & 3);
}

struct tsr_class_of tsr_class_find(struct tsr_classes *classes, uint64_t function, const uint32_t grid[3],
                                   const uint32_t block[3], uint32_t shared_bytes, uint64_t bytes)
{
    uint64_t of_function = mix(0, function);
    uint64_t shape = mix(mix(of_function, grid[0] | (uint64_t)grid[1] << 32), grid[2] | (uint64_t)shared_bytes << 32);
    shape = mix(shape, block[0] | (uint64_t)block[1] << 24 | (uint64_t)block[2] << 48);
    shape = bytes ? mix(shape, size_of(bytes)) : shape;
    uint64_t threads = (uint64_t)grid[0] * grid[1] * grid[2] * ((uint64_t)block[0] * block[1] * block[2]);
    struct tsr_class_of of = {.threads = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX};
    of.function = find(classes, of_function, of.threads);
    of.shape = find(classes, shape, of.threads);
    return of;
}

static float guess_of(const struct tsr_classes *classes, uint32_t gpu)
{
    return classes->guess[gpu] > 0 ? classes->guess[gpu] : 1;
}

/* Of GPUs that differ no more from what was guessed samples cannot tell: these are not made at the same time, and the GPU that is measured more would look faster. */
static float speed_of(const struct tsr_classes *classes, uint32_t gpu)
{
    float speed = load(&classes->speed[gpu]), guess = guess_of(classes, gpu);
    return speed < LONGER * guess && guess < LONGER * speed ? guess : speed > 0 ? speed : guess;
}

/*
 * On another GPU it takes a time that does not go with how the two compare: one of them is out of date, or what launches take depends on their data. The
 * rule would give all of them to one GPU.
 */
static bool is_doubted(const struct tsr_classes *classes, const struct tsr_class *entry, uint32_t gpu)
{
    float ns = load(&entry->ns[gpu]) / speed_of(classes, gpu);
    for (uint32_t other = 0; other < TSR_GPUS && ns > 0; other++) {
        float there = load(&entry->ns[other]) / speed_of(classes, other);
        if (there > LONGER * ns || (there > 0 && ns > LONGER * there))
            return true;
    }
    return false;
}

static struct tsr_class *counted_of(const struct tsr_class_of *of)
{
    return of->shape ? of->shape : of->function;
}

void tsr_class_owe(const struct tsr_class_of *of, uint32_t gpu)
{
    struct tsr_class *counted = counted_of(of);
    uint32_t owed = counted ? __atomic_load_n(&counted->owed[gpu], __ATOMIC_RELAXED) : ALWAYS;
    if (owed < ALWAYS)
        __atomic_store_n(&counted->owed[gpu], owed + 1, __ATOMIC_RELAXED);
}

/* One that is owed is made now, if any is. */
static bool pays(struct tsr_class *counted, uint32_t gpu)
{
    uint32_t owed = __atomic_load_n(&counted->owed[gpu], __ATOMIC_RELAXED);
    if (owed)
        __atomic_store_n(&counted->owed[gpu], owed - 1, __ATOMIC_RELAXED);
    return owed;
}

/* Of the function, in any shape: it may bring its code there, which takes milliseconds. */
static bool is_first(const struct tsr_class_of *of, uint32_t gpu)
{
    return of->function && !__atomic_exchange_n(&of->function->came[gpu], true, __ATOMIC_RELAXED);
}

bool tsr_class_is_due(const struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpu, uint32_t rarest)
{
    struct tsr_class *counted = counted_of(of);
    if (!counted)
        return false;
    uint32_t launches = __atomic_load_n(&counted->launches[gpu], __ATOMIC_RELAXED);
    __atomic_store_n(&counted->launches[gpu], launches + 1, __ATOMIC_RELAXED);
    if (is_first(of, gpu)) {
        tsr_class_owe(of, gpu);
        return false;
    }
    if (launches < ALWAYS || __atomic_load_n(&counted->longer[gpu], __ATOMIC_RELAXED) || pays(counted, gpu))
        return true;
    if (launches % DOUBTED == 0 && is_doubted(classes, counted, gpu))
        return true;
    uint32_t period = launches < rarest ? launches : rarest;
    return (period & (period - 1)) == 0 && launches % period == 0;
}

void tsr_class_given(const struct tsr_class_of *of)
{
    struct tsr_class *shape = of->shape;
    if (!shape || ++shape->given < LATELY)
        return;
    shape->given /= 2;
    shape->pulled /= 2;
}

void tsr_class_pulled(struct tsr_class *shape)
{
    shape->pulled++;
}

bool tsr_class_is_pulled(const struct tsr_class_of *of)
{
    return of->shape && of->shape->pulled && of->shape->pulled * OFTEN >= of->shape->given;
}

bool tsr_class_is_measured(const struct tsr_class_of *of)
{
    bool is = false;
    for (uint32_t gpu = 0; of->shape && gpu < TSR_GPUS && !is; gpu++)
        is = load(&of->shape->ns[gpu]) > 0;
    return is;
}

/* Where the class takes least, GPUs apart. TSR_GPUS: it was measured nowhere. */
static uint32_t quickest(const struct tsr_classes *classes, const struct tsr_class *entry, uint32_t gpus)
{
    uint32_t best = TSR_GPUS;
    float best_ns = 0;
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        float ns = load(&entry->ns[gpu]) / guess_of(classes, gpu);
        if (ns > 0 && (best == TSR_GPUS || ns < best_ns))
            best = gpu, best_ns = ns;
    }
    return best;
}

/* As on the GPU where it takes least, if that is like this one: of two samples, made at different times, the longer one was interrupted. */
static float without_interruption(const struct tsr_classes *classes, const struct tsr_class *entry, uint32_t gpu, uint32_t best)
{
    float known = load(&entry->ns[gpu]), same = load(&entry->ns[best]) / speed_of(classes, best) * speed_of(classes, gpu);
    bool as_guessed = speed_of(classes, gpu) == guess_of(classes, gpu) && speed_of(classes, best) == guess_of(classes, best);
    bool is_little = same < SHORT_NS && load(&classes->speed[gpu > best ? gpu : best]) > 0;
    return as_guessed && known > same && (known < LONGER * same || is_little) ? same : known;
}

/* On each GPU: as measured there, or on the first GPU on which it was. False: it was on none. */
static bool times_of(const struct tsr_classes *classes, const struct tsr_class *entry, uint32_t gpus, double scale, double *ns)
{
    uint32_t first = 0;
    while (entry && first < TSR_GPUS && load(&entry->ns[first]) <= 0)
        first++;
    if (!entry || first == TSR_GPUS)
        return false;
    float there = load(&entry->ns[first]) / speed_of(classes, first);
    uint32_t best = quickest(classes, entry, gpus);
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        float known =
            load(&entry->ns[gpu]) > 0 ? without_interruption(classes, entry, gpu, best) : there * speed_of(classes, gpu);
        ns[gpu] = scale * (double)known;
    }
    return true;
}

void tsr_class_times(const struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpus, uint64_t bytes,
                     double pace, double *ns)
{
    if (times_of(classes, of->shape, gpus, pace, ns))
        return;
    uint32_t threads = of->function ? __atomic_load_n(&of->function->threads, __ATOMIC_RELAXED) : 0;
    float scale = (float)of->threads / ((float)threads + 1);
    scale = scale < 1 / MOST_SCALE ? 1 / MOST_SCALE : scale > MOST_SCALE ? MOST_SCALE : scale;
    if (times_of(classes, of->function, gpus, pace * (double)scale, ns))
        return;
    for (uint32_t gpu = 0; gpu < gpus; gpu++)
        ns[gpu] = pace * (LEAST_NS + (double)bytes / BYTES_PER_NS);
}

static void blend(float *value, float now, uint32_t samples)
{
    float old = load(value);
    if (old <= 0 || (samples < ALWAYS && now < old)) /* the first one may have brought code there */
        store(value, now);
    else if (samples >= ALWAYS)
        store(value, old + (now < old ? WEIGHT_LESS : WEIGHT) * ((now < MOST_TIMES * old ? now : MOST_TIMES * old) - old));
}

/* Of samples in a row that are longer than what is known the shortest is believed. */
static bool is_longer(struct tsr_class *entry, uint32_t gpu, float now, uint32_t samples)
{
    float known = load(&entry->ns[gpu]);
    uint32_t longer = __atomic_load_n(&entry->longer[gpu], __ATOMIC_RELAXED);
    if (samples < ALWAYS || now < LONGER * (longer ? load(&entry->before_ns[gpu]) : known)) {
        __atomic_store_n(&entry->longer[gpu], 0, __ATOMIC_RELAXED);
        return false;
    }
    if (!longer)
        store(&entry->before_ns[gpu], known);
    if (!longer || now < load(&entry->longer_ns[gpu]))
        store(&entry->longer_ns[gpu], now);
    bool is_believed = ++longer == IN_A_ROW;
    __atomic_store_n(&entry->longer[gpu], is_believed ? 0 : longer, __ATOMIC_RELAXED);
    if (is_believed)
        store(&entry->ns[gpu], load(&entry->longer_ns[gpu]));
    return is_believed;
}

/* How the GPU compares with the first one that the class is known on. */
static void compare(struct tsr_classes *classes, const struct tsr_class *entry, uint32_t gpu)
{
    for (uint32_t first = 0; first < gpu; first++) {
        float there = load(&entry->ns[first]);
        if (there <= 0)
            continue;
        if (there < SHORT_NS)
            return;
        float ratio = load(&entry->ns[gpu]) / there * speed_of(classes, first), old = load(&classes->speed[gpu]);
        store(&classes->speed[gpu], old <= 0 ? ratio : old + WEIGHT / 4 * (ratio - old));
        return;
    }
}

static void lower(const struct tsr_classes *classes, struct tsr_class *entry, uint32_t gpu, float ns)
{
    double known[TSR_GPUS];
    if (entry && (!times_of(classes, entry, gpu + 1, 1, known) || (double)ns < known[gpu]))
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
    if (of->shape) /* nothing is in a row any more */
        __atomic_store_n(&of->shape->longer[gpu], 0, __ATOMIC_RELAXED);
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
    if (!is_longer(of->shape, gpu, now, samples))
        blend(&of->shape->ns[gpu], now, samples);
    __atomic_store_n(&of->shape->samples[gpu], samples + 1, __ATOMIC_RELAXED);
    if (samples >= 2)
        compare(classes, of->shape, gpu);
}
