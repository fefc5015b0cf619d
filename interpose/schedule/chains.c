/* See schedule/chains.h. */
#include "schedule/chains.h"

#include <stddef.h>
#include <string.h>

#define HISTORY_FADES 0.9f /* what was seen before, at each sight */
#define HAS_GROWN 0.8f     /* of what is expected of it */
#define OPENED_AT_ONCE 8u  /* chains, whatever becomes of them */
#define LEFT_OVER 16u      /* of what a launch reads most of, 1/n: less of an older chain's does not make it that one's */
#define SPREAD 0x9e3779b97f4a7c15u

_Static_assert(TSR_PLACE_CHAINS == sizeof((struct tsr_place *)0)->chains / sizeof(struct tsr_place_chain), "chains");
_Static_assert(TSR_PLACE_HISTORIES == sizeof((struct tsr_place *)0)->histories / sizeof(struct tsr_place_history), "histories");

/* NULL: it was forgotten. */
static struct tsr_place_chain *chain_at(const struct tsr_place *place, uint64_t number)
{
    const struct tsr_place_chain *chain = &place->chains[number % TSR_PLACE_CHAINS];
    return chain->number == number ? (struct tsr_place_chain *)chain : NULL;
}

/* The chain into which it was joined; itself, if into none. Chains are joined into older ones, so this ends. */
static uint64_t root_of(const struct tsr_place *place, uint64_t number)
{
    for (const struct tsr_place_chain *chain = chain_at(place, number); chain && chain->into; chain = chain_at(place, number))
        number = chain->into;
    return number;
}

/* Nobody has read them before. */
static bool is_first_read(const struct tsr_chain_readers *of, uint32_t part)
{
    return of->known[part] && !of->known[part]->was_read;
}

static uint64_t most_of(const struct tsr_place_launch *launch, const struct tsr_chain_readers *of)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < launch->part_count; i++)
        most = is_first_read(of, i) && launch->parts[i].bytes > most ? launch->parts[i].bytes : most;
    return most;
}

/*
 * With which it goes on; 0: none. A few bytes that nobody had read before, of a request before this one or beside what is meant, would else make all requests one chain, of which
 * no end can be expected.
 */
static uint64_t goes_on_with(const struct tsr_place *place, const struct tsr_place_launch *launch,
                             const struct tsr_chain_readers *of)
{
    uint64_t oldest = 0, bytes = 0, least = most_of(launch, of) / LEFT_OVER;
    for (uint32_t i = 0; i < launch->part_count; i++) {
        bytes = launch->parts[i].bytes ? launch->parts[i].bytes : bytes; /* 0: another writer of the same bytes */
        if (!is_first_read(of, i) || bytes < least)
            continue;
        uint64_t root = root_of(place, of->known[i]->chain);
        if (!oldest || root < oldest)
            oldest = root;
    }
    return oldest;
}

static uint64_t key_of(const struct tsr_place_launch *launch, const struct tsr_chain_readers *of)
{
    const struct tsr_place_known *last = of->known[TSR_PLACE_PARTS];
    return (launch->like ^ (last ? last->like * SPREAD >> 7 : 0)) * SPREAD | 1;
}

static struct tsr_place_history *history_at(const struct tsr_place *place, uint64_t key)
{
    return (struct tsr_place_history *)&place->histories[(key >> 40) % TSR_PLACE_HISTORIES];
}

/* A new one in the place of another, if it must be. */
static struct tsr_place_history *history_of(const struct tsr_place *place, uint64_t key)
{
    struct tsr_place_history *history = history_at(place, key);
    if (history->key != key)
        *history = (struct tsr_place_history){.key = key};
    return history;
}

const struct tsr_place_chain *tsr_chain_find(const struct tsr_place *place, const struct tsr_place_launch *launch,
                                             const struct tsr_chain_readers *of, const struct tsr_place_history **history)
{
    uint64_t number = goes_on_with(place, launch, of);
    *history = NULL;
    if (number)
        return chain_at(place, number);
    uint64_t key = key_of(launch, of);
    if (launch->like && history_at(place, key)->key == key)
        *history = history_at(place, key);
    return NULL;
}

static void fade(struct tsr_place_history *history)
{
    history->work_ns *= HISTORY_FADES;
    history->grown_ns = 0;
    history->opened = 0;
}

/* A chain that has grown beyond what chains like it were when they were joined. */
static void grow(const struct tsr_place *place, const struct tsr_place_chain *chain)
{
    struct tsr_place_history *history = history_at(place, chain->key);
    if (history->key != chain->key)
        return;
    history->grown_ns = history->grown_ns > (float)chain->work_ns ? history->grown_ns : (float)chain->work_ns;
    history->work_ns = history->grown_ns > history->work_ns ? history->grown_ns : history->work_ns;
    history->bytes = history->bytes > (float)chain->bytes ? history->bytes : (float)chain->bytes;
}

static void join(const struct tsr_place *place, struct tsr_place_chain *chain, uint64_t into)
{
    struct tsr_place_chain *to = chain_at(place, into);
    struct tsr_place_history *history = history_of(place, chain->key);
    history->joins = true;
    fade(history);
    history->bytes *= HISTORY_FADES;
    history->returns = root_of(place, chain->beside) == into;
    grow(place, chain);
    if (to)
        to->work_ns += chain->work_ns;
    chain->into = into;
}

/*
 * What was seen before fades whenever a chain is joined; where none is, when one begins, unless those before it have only begun: several streams
 * may open theirs at the same time.
 */
static void open_history(const struct tsr_place *place, uint64_t key)
{
    struct tsr_place_history *history = history_of(place, key);
    if (history->joins || (history->grown_ns < HAS_GROWN * history->work_ns && ++history->opened < OPENED_AT_ONCE))
        return;
    fade(history);
}

/* A launch of the chain reads them. */
static void read_part(const struct tsr_place *place, struct tsr_place_known *writer, uint64_t bytes, uint64_t reader)
{
    struct tsr_place_chain *chain = chain_at(place, writer->chain);
    uint64_t root = root_of(place, writer->chain);
    if (chain && writer->chain > reader && !writer->was_shared) {
        writer->was_shared = true;
        chain->bytes += bytes;
        grow(place, chain);
    }
    chain = root > reader ? chain_at(place, root) : NULL;
    if (chain)
        join(place, chain, reader);
    writer->was_read = true;
}

void tsr_chain_take(struct tsr_place *place, const struct tsr_place_launch *launch, const struct tsr_chain_readers *of,
                    const double late_until_ns[3], struct tsr_place_known *own)
{
    const struct tsr_place_known *last = of->known[TSR_PLACE_PARTS];
    uint64_t number = goes_on_with(place, launch, of);
    if (!number) {
        uint64_t key = key_of(launch, of);
        number = ++place->chain_count;
        place->chains[number % TSR_PLACE_CHAINS] =
            (struct tsr_place_chain){.number = number, .beside = last ? root_of(place, last->chain) : 0, .key = key};
        memcpy(place->chains[number % TSR_PLACE_CHAINS].late_until_ns, late_until_ns, 3 * sizeof *late_until_ns);
        open_history(place, key);
    }
    for (uint32_t i = 0; i < launch->part_count; i++)
        if (of->known[i])
            read_part(place, of->known[i], launch->parts[i].bytes, number);
    struct tsr_place_chain *chain = chain_at(place, number);
    if (chain) {
        chain->work_ns += launch->ns[place->options.home];
        grow(place, chain);
    }
    own->chain = number;
    own->like = launch->like;
    own->was_read = own->was_shared = false;
}
