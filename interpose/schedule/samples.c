/* See samples.h. */
#include "schedule/samples.h"

#include "driver/real.h"
#include "memory/home.h"
#include "object/session.h"

#define HOME 0u /* rank */
#define LEAST_NS 100.0 /* of a launch: what is shorter was not between the events */

void tsr_samples_init(struct tsr_samples *samples, bool emulated)
{
    samples->times = (struct tsr_times_driver){.event_query = tsr_real.cuEventQuery};
    if (emulated)
        tsr_times_find_emulator(&samples->times, tsr_real.cuGetExportTable);
}

static struct tsr_lane_time *answer_of(const struct tsr_lane_client *lane, uint32_t place)
{
    return &tsr_lane_times(lane)[TSR_LANE_TIMES - TSR_LANE_TIMES_PLACED + place];
}

/* Work of other streams that came later may have run beside it, too. */
static void report(struct tsr_samples *samples, const struct tsr_sample_of *of, uint32_t gpu, double ns)
{
    if (ns < LEAST_NS)
        return;
    if (of->shared || of->turns != samples->sharing[gpu].turns)
        tsr_class_bound(&samples->classes, &of->class, gpu, ns);
    else
        tsr_class_report(&samples->classes, &of->class, gpu, ns);
}

static struct tsr_sample_of begun(const struct tsr_samples *samples, const struct tsr_class_of *class, uint32_t gpu,
                                  CUstream stream, bool shared)
{
    return (struct tsr_sample_of){
        .class = *class, .turns = tsr_sharing_turns(&samples->sharing[gpu], stream), .shared = shared};
}

static void poll_away(struct tsr_samples *samples, uint32_t number)
{
    const struct tsr_lane_client *lane = tsr_session()->lanes[number];
    for (uint32_t i = 0; i < TSR_LANE_TIMES_PLACED; i++) {
        struct tsr_sample_of *of = &samples->away[number][i];
        uint32_t found =
            of->class.function ? __atomic_load_n(&answer_of(lane, i)->state, __ATOMIC_ACQUIRE) : TSR_LANE_TIME_OPEN;
        if (found == TSR_LANE_TIME_OPEN)
            continue;
        if (found == TSR_LANE_TIME_KNOWN)
            report(samples, of, number + 1, (double)answer_of(lane, i)->ns);
        __atomic_store_n(&answer_of(lane, i)->state, TSR_LANE_TIME_OPEN, __ATOMIC_RELAXED);
        *of = (struct tsr_sample_of){0};
        samples->under_way_away[number]--;
    }
}

/* False: it is not done. */
static bool close_home(struct tsr_samples *samples, struct tsr_sample *one)
{
    float ms = 0;
    if (!one->ended || tsr_times_query(&samples->times, one->end) == CUDA_ERROR_NOT_READY)
        return false;
    if (tsr_real.cuEventElapsedTime(&ms, one->begin, one->end) == CUDA_SUCCESS)
        report(samples, &one->of, HOME, (double)ms * 1e6);
    else
        samples->none = true;
    one->of = (struct tsr_sample_of){0};
    samples->under_way--;
    return true;
}

static struct tsr_sample *oldest_home(struct tsr_samples *samples)
{
    struct tsr_sample *oldest = NULL;
    for (uint32_t i = 0; i < TSR_SAMPLES; i++) {
        struct tsr_sample *one = &samples->home[i];
        if (one->of.class.function && (!oldest || one->number < oldest->number))
            oldest = one;
    }
    return oldest;
}

/*
 * The oldest ones, up to one that is not done: asking a driver for each takes a microsecond, and they mostly end as they began. Another one by turns, as
 * a stream may stand still.
 */
static void poll_home(struct tsr_samples *samples)
{
    while (samples->under_way && close_home(samples, oldest_home(samples)))
        continue;
    struct tsr_sample *other = &samples->home[samples->turn++ % TSR_SAMPLES];
    if (other->of.class.function)
        close_home(samples, other);
}

void tsr_samples_poll(struct tsr_samples *samples)
{
    for (uint32_t number = 0; number < tsr_session()->lane_count; number++)
        if (samples->under_way_away[number])
            poll_away(samples, number);
    if (!samples->under_way)
        return;
    CUstreamCaptureMode mode = tsr_memory_relax_begin(); /* the program did not ask: another thread's capture goes on */
    poll_home(samples);
    tsr_memory_relax_end(mode);
}

uint16_t tsr_samples_begin_away(struct tsr_samples *samples, const struct tsr_class_of *of, const struct tsr_lane_client *lane,
                                CUstream stream, bool shared, struct tsr_sample_away *away)
{
    uint32_t number = tsr_lane_number(lane), i = 0;
    while (i < TSR_LANE_TIMES_PLACED && samples->away[number][i].class.function)
        i++;
    if (i == TSR_LANE_TIMES_PLACED) {
        tsr_class_owe(of, number + 1);
        return 0;
    }
    samples->away[number][i] = begun(samples, of, number + 1, stream, shared);
    samples->under_way_away[number]++;
    *away = (struct tsr_sample_away){.lane = number, .place = i, .is_one = true};
    return (uint16_t)(TSR_LANE_TIMES - TSR_LANE_TIMES_PLACED + i + 1);
}

void tsr_samples_drop(struct tsr_samples *samples, const struct tsr_sample_away *away)
{
    samples->away[away->lane][away->place] = (struct tsr_sample_of){0};
    samples->under_way_away[away->lane]--;
}

/* NULL: there is none now. */
static struct tsr_sample *find_free(struct tsr_samples *samples)
{
    CUcontext current = NULL;
    if (samples->none || tsr_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return NULL;
    if (!samples->context)
        samples->context = current;
    if (samples->context != current)
        return NULL;
    struct tsr_sample *one = samples->home;
    while (one->of.class.function)
        one++;
    if (!one->begin && tsr_real.cuEventCreate(&one->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return NULL;
    return one->end || tsr_real.cuEventCreate(&one->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS ? one : NULL;
}

struct tsr_sample *tsr_samples_begin(struct tsr_samples *samples, const struct tsr_class_of *of, CUstream stream, bool shared)
{
    if (samples->under_way == TSR_SAMPLES) {
        tsr_class_owe(of, HOME);
        return NULL;
    }
    struct tsr_sample *one = find_free(samples);
    if (!one || tsr_real.cuEventRecord(one->begin, stream) != CUDA_SUCCESS)
        return NULL;
    one->of = begun(samples, of, HOME, stream, shared);
    one->number = ++samples->begun;
    one->ended = false;
    samples->under_way++;
    return one;
}

void tsr_samples_drop_home(struct tsr_samples *samples, struct tsr_sample *sample)
{
    sample->of = (struct tsr_sample_of){0};
    samples->under_way--;
}

void tsr_samples_end(struct tsr_samples *samples, struct tsr_sample *sample, CUstream stream)
{
    sample->ended = tsr_real.cuEventRecord(sample->end, stream) == CUDA_SUCCESS;
    if (sample->ended)
        return;
    tsr_samples_drop_home(samples, sample);
    samples->none = true;
}
