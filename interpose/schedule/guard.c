/* See tessera/place.h. */
#include <tessera/place.h>

#include <string.h>

void tsr_guard_init(struct tsr_guard *guard, const struct tsr_guard_options *options)
{
    memset(guard, 0, sizeof *guard);
    guard->options = *options;
    guard->rest_ns = options->rest_ns;
}

static void begin_window(struct tsr_guard *guard, double single_ns, double end_ns)
{
    guard->rests = false;
    guard->began_ns = single_ns;
    guard->lag_ns = end_ns - single_ns;
}

static void begin_rest(struct tsr_guard *guard, double single_ns)
{
    guard->rests = true;
    guard->until_ns = single_ns + guard->rest_ns;
    guard->rest_ns *= 2;
    if (guard->rest_ns > guard->options.longest_rest_ns)
        guard->rest_ns = guard->options.longest_rest_ns;
}

bool tsr_guard_next(struct tsr_guard *guard, double single_ns, double end_ns)
{
    const struct tsr_guard_options *options = &guard->options;
    double passed_ns = single_ns - guard->began_ns, lost_ns = end_ns - single_ns - guard->lag_ns;
    if (guard->rests) {
        if (single_ns >= guard->until_ns)
            begin_window(guard, single_ns, end_ns);
        guard->rested += guard->rests;
        return guard->rests;
    }
    bool ends = passed_ns >= options->window_ns;
    if (!ends && lost_ns <= options->budget_ns)
        return false;
    bool won = ends && -lost_ns >= options->least * passed_ns;
    guard->windows++;
    guard->won += won;
    if (won)
        guard->rest_ns = options->rest_ns;
    begin_window(guard, single_ns, end_ns);
    if (!won)
        begin_rest(guard, single_ns);
    return guard->rests;
}
