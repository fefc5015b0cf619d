/* See tessera/place.h. */
#include <tessera/place.h>

#include <string.h>

#define MOST_CREDIT_NS 50e6
#define MOST_EXCUSES 16u /* so a program that makes something all the time does not lose much */

void tsr_guard_init(struct tsr_guard *guard, const struct tsr_guard_options *options)
{
    memset(guard, 0, sizeof *guard);
    guard->options = *options;
    guard->rest_ns = options->rest_ns;
}

static void begin_window(struct tsr_guard *guard, const struct tsr_guard_clocks *now)
{
    guard->rests = guard->excused = false;
    guard->began = *now;
}

static void begin_rest(struct tsr_guard *guard, const struct tsr_guard_clocks *now, double rest_ns)
{
    guard->rests = true;
    guard->began = *now;
    guard->until_ns = now->single_ns + rest_ns;
    guard->credit_ns = 0;
}

static void lengthen_rests(struct tsr_guard *guard)
{
    guard->rest_ns *= 2;
    if (guard->rest_ns > guard->options.longest_rest_ns)
        guard->rest_ns = guard->options.longest_rest_ns;
}

void tsr_guard_excuse(struct tsr_guard *guard)
{
    guard->excused = !guard->rests && guard->excuses < MOST_EXCUSES;
}

/* It advanced less than one GPU's clock did. */
static bool gains(const struct tsr_guard *guard, double passed_ns, double advanced_ns)
{
    return advanced_ns <= (1 - guard->options.least) * passed_ns;
}

void tsr_guard_waited(struct tsr_guard *guard, const struct tsr_guard_clocks *now)
{
    const struct tsr_guard_clocks *began = &guard->began, *waited = &guard->waited;
    double lost_ns = now->end_ns - began->end_ns - (now->single_ns - began->single_ns);
    bool gained = gains(guard, now->single_ns - waited->single_ns, now->end_ns - waited->end_ns);
    if (!guard->rests && gained && lost_ns > 0)
        guard->began.end_ns += lost_ns;
    guard->waited = *now;
}

static void go_on_resting(struct tsr_guard *guard, const struct tsr_guard_clocks *now)
{
    if (now->single_ns < guard->until_ns)
        return;
    if (gains(guard, now->single_ns - guard->began.single_ns, now->promised_ns - guard->began.promised_ns))
        begin_window(guard, now);
    else
        begin_rest(guard, now, guard->rest_ns);
}

bool tsr_guard_next(struct tsr_guard *guard, const struct tsr_guard_clocks *now)
{
    const struct tsr_guard_options *options = &guard->options;
    if (!guard->started) { /* clocks do not begin at 0 */
        begin_window(guard, now);
        guard->waited = *now;
        guard->started = true;
    }
    if (guard->rests) {
        go_on_resting(guard, now);
        guard->rested += guard->rests;
        return guard->rests;
    }
    double passed_ns = now->single_ns - guard->began.single_ns, advanced_ns = now->end_ns - guard->began.end_ns;
    bool ends = passed_ns >= options->window_ns;
    if (!ends && advanced_ns - passed_ns <= options->budget_ns + guard->credit_ns)
        return false;
    bool won = ends && gains(guard, passed_ns, advanced_ns);
    guard->windows++;
    guard->won += won;
    if (won) {
        begin_window(guard, now);
        guard->rest_ns = options->rest_ns;
        guard->excuses = 0;
        guard->credit_ns = passed_ns - advanced_ns < MOST_CREDIT_NS ? passed_ns - advanced_ns : MOST_CREDIT_NS;
    } else {
        begin_rest(guard, now, guard->excused ? options->rest_ns : guard->rest_ns);
        if (!guard->excused)
            lengthen_rests(guard);
        guard->excuses += guard->excused;
    }
    return guard->rests;
}
