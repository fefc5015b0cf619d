/* See decisions.h. */
#include "schedule/decisions.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/os.h"

#define BUFFER_BYTES (1u << 16)
#define LINE_BYTES 1024u
#define MOST_NAME 200

/* Times in microseconds; `other` GPU: the second one. */
#define COLUMNS                                                                                                                \
    "number\tname\tknown\tmay_leave\trests\tjoins\thost\treads\tread_bytes\tlacking_bytes\thome_takes\tother_takes\tchosen\tfetched_to\t" \
    "went\tstarts\tends\tsingle\tall\tpromised\tstay\tearliest\tpace\tstream\tchain\tchain_joins\n"

bool tsr_decisions_are_wanted;

static char buffer[BUFFER_BYTES];
static uint32_t used;
static int file = -1;

void tsr_decisions_start(void)
{
    char path[sizeof tsr_options()->decisions + 16];
    const char *wanted = tsr_options()->decisions;
    if (file >= 0) /* a parent process' */
        close(file);
    file = -1;
    used = 0;
    if (*wanted) {
        snprintf(path, sizeof path, "%s.%d", wanted, (int)getpid());
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0)
            tsr_warn("TESSERA_DECISIONS: %s cannot be written", path);
    }
    tsr_decisions_are_wanted = file >= 0;
    if (tsr_decisions_are_wanted)
        used = (uint32_t)snprintf(buffer, sizeof buffer, COLUMNS);
}

void tsr_decisions_flush(void)
{
    if (!tsr_decisions_are_wanted || !used)
        return;
    tsr_decisions_are_wanted = tsr_os_write_all(file, buffer, used);
    used = 0;
}

static double us(const struct tsr_decided *decided, double ns)
{
    return (ns - decided->start_ns) / 1e3;
}

void tsr_decisions_add(const struct tsr_decided *decided)
{
    const struct tsr_place_launch *asked = decided->asked;
    const struct tsr_place_choice *choice = decided->choice;
    const struct tsr_guard_clocks *clocks = decided->clocks;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < asked->part_count; i++)
        bytes += asked->parts[i].bytes;
    if (used + LINE_BYTES > BUFFER_BYTES)
        tsr_decisions_flush();
    int written = snprintf(
        buffer + used, LINE_BYTES,
        "%llu\t%.*s\t%d\t%d\t%d\t%u\t%.1f\t%u\t%llu\t%llu\t%.1f\t%.1f\t%u\t%u\t%u\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%u\t%u\t%.3f\t%u\t%.1f\t%d\n",
        (unsigned long long)decided->number, MOST_NAME, decided->name, !decided->unknown, !decided->stays, decided->rests,
        decided->joins, us(decided, asked->now_ns), asked->part_count, (unsigned long long)bytes,
        (unsigned long long)asked->constants[1], asked->ns[0] / 1e3, asked->ns[1] / 1e3, choice->gpu, choice->fetches,
        decided->gpu, us(decided, choice->start_ns), us(decided, choice->own.finish_ns[TSR_PLACE_ACTUAL]),
        us(decided, clocks->single_ns), us(decided, clocks->end_ns), us(decided, clocks->promised_ns),
        choice->own.gpu[TSR_PLACE_STAY], choice->own.gpu[TSR_PLACE_EARLIEST], decided->pace, asked->stream,
        choice->chain_ns / 1e3, choice->chain_joins);
    used += written > 0 && (uint32_t)written < LINE_BYTES ? (uint32_t)written : 0;
}
