/* See decide.h. */
#include "schedule/decide.h"

#include <pthread.h>
#include <unistd.h>

#include "base/demangle.h"
#include "base/format.h"
#include "base/log.h"
#include "base/quarantine.h"
#include "calls/calls.h"
#include "lane/functions.h"
#include "lane/lane_client.h"
#include "object/session.h"
#include "object/stream_number.h"
#include "schedule/assign.h"

static pthread_mutex_t candidate_lock = PTHREAD_MUTEX_INITIALIZER; /* writing a function's candidates */

static struct tsr_quarantine old_rules; /* a launch on another thread may still look at some */

/* The rules of the present generation, or the ones before while another thread reads the new ones. NULL: there are none yet. */
static struct tsr_rules *rules_now(struct tsr_session *session)
{
    struct tsr_rules *rules = __atomic_load_n(&session->rules, __ATOMIC_ACQUIRE);
    uint32_t generation = __atomic_load_n(&session->policy->generation, __ATOMIC_ACQUIRE);
    if (rules && rules->generation == generation)
        return rules;
    if (!rules)
        pthread_mutex_lock(&session->rules_lock);
    else if (pthread_mutex_trylock(&session->rules_lock) != 0)
        return rules;
    rules = __atomic_load_n(&session->rules, __ATOMIC_ACQUIRE);
    if (!rules || rules->generation != generation) {
        struct tsr_rules *fresh = tsr_rules_create(session->policy);
        if (!fresh && !rules) /* it was being changed, which happens now and then */
            fresh = tsr_rules_create(session->policy);
        if (fresh) {
            __atomic_store_n(&session->rules, fresh, __ATOMIC_RELEASE);
            tsr_rules_destroy(tsr_quarantine_pass(&old_rules, rules));
        }
        rules = fresh ? fresh : rules;
    }
    pthread_mutex_unlock(&session->rules_lock);
    return rules;
}

/* A set is written between two changes of its generation; who sees the same generation before and after has read a whole set. */
static bool read_candidates(const struct tsr_decide_cache *cache, uint32_t generation, uint64_t candidates[TSR_RULES_WORDS])
{
    if (__atomic_load_n(&cache->generation, __ATOMIC_ACQUIRE) != generation)
        return false;
    for (uint32_t i = 0; i < TSR_RULES_WORDS; i++)
        candidates[i] = __atomic_load_n(&cache->candidates[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&cache->generation, __ATOMIC_RELAXED) == generation;
}

static void write_candidates(struct tsr_decide_cache *cache, uint32_t generation, const uint64_t candidates[TSR_RULES_WORDS])
{
    pthread_mutex_lock(&candidate_lock);
    __atomic_store_n(&cache->generation, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (uint32_t i = 0; i < TSR_RULES_WORDS; i++)
        __atomic_store_n(&cache->candidates[i], candidates[i], __ATOMIC_RELAXED);
    __atomic_store_n(&cache->generation, generation, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&candidate_lock);
}

static bool within(const uint64_t range[2], uint64_t value)
{
    return value >= range[0] && value <= range[1];
}

static uint64_t product(const uint32_t sizes[3])
{
    return (uint64_t)sizes[0] * sizes[1] * sizes[2];
}

/* splitmix64 */
uint64_t tsr_decide_draw(uint64_t seed, uint64_t name_hash, uint64_t number)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15ull + name_hash + number * 0xd1342543de82ef95ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static bool in_library_call(const struct tsr_rule *rule)
{
    uint32_t call = tessera_library_call ? tessera_library_call() : 0;
    return rule->library_calls[call / 64 % (TSR_LIBRARY_CALLS_MOST / 64)] >> (call % 64) & 1;
}

static bool holds_now(const struct tsr_rule *rule, const struct tsr_function_record *function,
                      const struct tsr_decide_launch *launch, uint64_t number)
{
    const struct tsr_policy_rule *spec = &rule->spec;
    uint32_t conditions = rule->per_launch;
    if (launch->graph &&
        (conditions & (TSR_POLICY_BLOCKS | TSR_POLICY_BLOCK_THREADS | TSR_POLICY_THREADS | TSR_POLICY_LIBRARY_CALL)))
        return false;
    if ((conditions & TSR_POLICY_BLOCKS) && !within(spec->blocks, product(launch->grid)))
        return false;
    if ((conditions & TSR_POLICY_BLOCK_THREADS) && !within(spec->block_threads, product(launch->block)))
        return false;
    if ((conditions & TSR_POLICY_THREADS) && !within(spec->threads, product(launch->grid) * product(launch->block)))
        return false;
    if ((conditions & TSR_POLICY_STREAM) && tsr_stream_number(launch->stream) != spec->stream)
        return false;
    if ((conditions & TSR_POLICY_NTH) && (spec->nth_every ? number % spec->nth_every : number) != spec->nth_offset)
        return false;
    if ((conditions & TSR_POLICY_SHARE) && tsr_decide_draw(spec->seed, function->name_hash, number) >= spec->share)
        return false;
    return !(conditions & TSR_POLICY_LIBRARY_CALL) || in_library_call(rule);
}

static const struct tsr_rule *choose(const struct tsr_rules *rules, const uint64_t candidates[TSR_RULES_WORDS],
                                     const struct tsr_function_record *function, const struct tsr_decide_launch *launch,
                                     uint64_t number)
{
    for (uint32_t word = 0; word < TSR_RULES_WORDS; word++)
        for (uint64_t left = candidates[word]; left; left &= left - 1) {
            const struct tsr_rule *rule = &rules->rules[64 * word + (uint32_t)__builtin_ctzll(left)];
            if (!rule->per_launch || holds_now(rule, function, launch, number))
                return rule;
        }
    return NULL;
}

/* The function's candidates under these rules; when they are new, the launch that comes first finds them. True: it was this one. */
static bool candidates_of(struct tsr_function_record *function, const struct tsr_rules *rules,
                          uint64_t candidates[TSR_RULES_WORDS])
{
    if (read_candidates(&function->decide, rules->generation, candidates))
        return false;
    tsr_rules_match(rules, function, candidates);
    write_candidates(&function->decide, rules->generation, candidates);
    return true;
}

/*
 * Where the first candidate has no condition on a launch, or there is no candidate, all launches have the same rule: its number + 2, or 1 for
 * none, in the lower half of `cached_rule`, below the generation.
 */
static void cache_rule(struct tsr_function_record *function, const struct tsr_rules *rules,
                       const uint64_t candidates[TSR_RULES_WORDS])
{
    uint32_t word = 0;
    while (word < TSR_RULES_WORDS && !candidates[word])
        word++;
    uint32_t number = word < TSR_RULES_WORDS ? 64 * word + (uint32_t)__builtin_ctzll(candidates[word]) : UINT32_MAX;
    if (number == UINT32_MAX || !rules->rules[number].per_launch)
        __atomic_store_n(&function->decide.cached_rule, (uint64_t)rules->generation << 32 | (number + 2), __ATOMIC_RELAXED);
}

/* False: it depends on the launch, or nobody has found it under these rules. */
static bool is_cached(const struct tsr_function_record *function, const struct tsr_rules *rules, const struct tsr_rule **rule)
{
    uint64_t found = __atomic_load_n(&function->decide.cached_rule, __ATOMIC_RELAXED);
    uint32_t number = (uint32_t)found;
    if (found >> 32 != rules->generation || number == 0)
        return false;
    *rule = number == 1 ? NULL : &rules->rules[number - 2];
    return true;
}

/* Whether a rule that may hold asks for the launch's number among the function's, which all threads share. */
static bool is_numbered(const struct tsr_rules *rules, const uint64_t candidates[TSR_RULES_WORDS])
{
    uint64_t asked = 0;
    for (uint32_t i = 0; rules->numbers && i < TSR_RULES_WORDS; i++)
        asked |= candidates[i] & rules->numbered[i];
    return asked != 0;
}

static bool is_due(struct tsr_session *session, uint32_t every)
{
    return __atomic_add_fetch(&session->redirected, 1, __ATOMIC_RELAXED) % every == 0;
}

static int32_t device_of(const struct tsr_rules *rules, const struct tsr_rule *rule)
{
    return rule ? rule->spec.device : rules->default_device;
}

static void log_first(const struct tsr_rules *rules, const struct tsr_function_record *function, const struct tsr_rule *rule,
                      uint32_t device)
{
    if (!rules->log_decisions)
        return;
    const char *name = function->name ? TSR_KERNEL_NAME(function->name) : "(unknown)";
    if (rule)
        tsr_warn("%s: line %u of the policy holds, GPU %u", name, rule->spec.line, device);
    else
        tsr_warn("%s: no rule of the policy holds, GPU %u", name, device);
}

static void log_given(const struct tsr_rules *rules, const struct tsr_rule *rule, const struct tsr_decide_launch *launch,
                      uint32_t device)
{
    uint32_t line = rule ? rule->spec.line : 0, number = tsr_stream_number(launch->stream);
    if (!rules->log_decisions)
        return;
    if (device_of(rules, rule) == TSR_POLICY_BY_THREAD)
        tsr_warn("thread %d is given GPU %u (line %u of the policy)", gettid(), device, line);
    else if (number == 0 || number == TSR_STREAM_UNNUMBERED)
        tsr_warn("a %s stream is given GPU %u (line %u of the policy)", number ? "library's" : "default", device, line);
    else
        tsr_warn("stream %u of the program is given GPU %u (line %u of the policy)", number, device, line);
}

/* For people who look for the reason why a rule matched nothing. */
static void note_function(struct tsr_policy *policy, const struct tsr_function_record *function)
{
    uint32_t most = sizeof policy->functions / sizeof policy->functions[0];
    if (__atomic_load_n(&policy->function_count, __ATOMIC_RELAXED) >= most)
        return;
    uint32_t place = __atomic_fetch_add(&policy->function_count, 1, __ATOMIC_RELAXED);
    if (place < most)
        tsr_format(policy->functions[place], sizeof policy->functions[place], "%s", function->name);
}

static void count_rule(const struct tsr_session *session, const struct tsr_rules *rules, const struct tsr_rule *rule)
{
    tsr_session_count(&tsr_session_counts(session)->rule_launches[rules->generation % 2][rule - rules->rules], 1);
}

/* First: nobody has asked for the function under these rules before. */
static const struct tsr_rule *find_rule(struct tsr_function_record *function, const struct tsr_rules *rules,
                                        const struct tsr_decide_launch *launch, bool *first)
{
    uint64_t candidates[TSR_RULES_WORDS];
    *first = candidates_of(function, rules, candidates);
    bool numbered = is_numbered(rules, candidates);
    uint64_t number = numbered ? __atomic_add_fetch(&function->decide.launches, 1, __ATOMIC_RELAXED) : 0;
    if (!numbered) /* else the number goes on, whichever rule holds */
        cache_rule(function, rules, candidates);
    return choose(rules, candidates, function, launch, number);
}

static struct tsr_assignment place_of(const struct tsr_session *session, const struct tsr_rules *rules,
                                      const struct tsr_rule *rule, const struct tsr_decide_launch *launch)
{
    int32_t device = device_of(rules, rule);
    if (device == TSR_POLICY_BY_STREAM || device == TSR_POLICY_BY_THREAD)
        return tsr_assign(session, device, launch);
    if (device == TSR_POLICY_AUTO)
        return (struct tsr_assignment){0};
    return rule ? (struct tsr_assignment){.lane = rule->lane, .leaves = rule->leaves}
                : (struct tsr_assignment){.lane = rules->default_lane, .leaves = rules->default_leaves};
}

struct tsr_decision tsr_decide(struct tsr_session *session, struct tsr_function_record *function,
                               const struct tsr_decide_launch *launch)
{
    struct tsr_decision decision = {.device = session->policy->home};
    const struct tsr_rules *rules = rules_now(session);
    if (!rules)
        return decision;
    const struct tsr_rule *rule;
    bool first = false;
    if (!is_cached(function, rules, &rule))
        rule = find_rule(function, rules, launch, &first);
    if (rule)
        count_rule(session, rules, rule);
    if (first && !__atomic_exchange_n(&function->decide.noted, true, __ATOMIC_RELAXED))
        note_function(session->policy, function);
    struct tsr_assignment place = place_of(session, rules, rule, launch);
    decision.lane = place.lane;
    decision.leaves = place.leaves;
    decision.automatic = device_of(rules, rule) == TSR_POLICY_AUTO;
    if (decision.lane) {
        decision.lane_number = tsr_lane_number(decision.lane);
        decision.device = session->lane_device[decision.lane_number];
        decision.verify = rules->verify_every && is_due(session, rules->verify_every);
        decision.verify_limit_bytes = rules->verify_limit_bytes;
    }
    if (first)
        log_first(rules, function, rule, decision.device);
    if (place.is_new)
        log_given(rules, rule, launch, decision.device);
    return decision;
}

void tsr_decide_kept(enum tsr_reason reason)
{
    tsr_session_count(&tsr_session_counts(tsr_session_counting())->kept_reasons[reason], 1);
}
