/* See rules.h. */
#include "schedule/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/demangle.h"
#include "base/format.h"
#include "base/log.h"
#include "calls/calls.h"
#include "object/module_image.h"
#include "object/session.h"

#define NAME_BYTES 256

/* A text of the table; an offset that does not fit is an empty text. */
static const char *text_of(const struct tsr_rules *rules, uint32_t offset)
{
    return offset < rules->text_bytes ? rules->text + offset : "";
}

static bool matches(const struct tsr_rules *rules, uint32_t glob, const char *name)
{
    return fnmatch(text_of(rules, glob), name, 0) == 0;
}

/* What the executable's link, or the file of the process' own name, says. */
static void read_process_name(char *own, char *executable)
{
    own[0] = executable[0] = 0;
    int descriptor = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = descriptor < 0 ? 0 : read(descriptor, own, NAME_BYTES - 1);
    own[bytes > 0 ? bytes - 1 : 0] = 0; /* it ends with a newline */
    if (descriptor >= 0)
        close(descriptor);
    char path[4096];
    bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = 0;
    const char *slash = strrchr(path, '/');
    tsr_format(executable, NAME_BYTES, "%s", slash ? slash + 1 : path);
}

static bool in_this_process(const struct tsr_rules *rules, uint32_t glob)
{
    char own[NAME_BYTES], executable[NAME_BYTES];
    read_process_name(own, executable);
    return matches(rules, glob, own) || matches(rules, glob, executable);
}

static void choose_library_calls(const struct tsr_rules *rules, struct tsr_rule *rule)
{
    const char *name;
    for (uint32_t i = 1; tessera_library_call_name && (name = tessera_library_call_name(i)); i++)
        if (matches(rules, rule->spec.library_call, name))
            rule->library_calls[i / 64] |= 1ull << (i % 64);
}

static void prepare(struct tsr_rules *rules, uint32_t number)
{
    struct tsr_rule *rule = &rules->rules[number];
    const struct tsr_policy_rule *spec = &rule->spec;
    rule->per_launch = spec->conditions & TSR_RULES_PER_LAUNCH;
    bool numbers = spec->conditions & (TSR_POLICY_NTH | TSR_POLICY_SHARE);
    rules->numbers |= numbers;
    if (numbers)
        rules->numbered[number / 64] |= 1ull << (number % 64);
    rule->lane = tsr_session_lane(spec->device);
    rule->leaves = spec->device != rules->home;
    if (spec->conditions & TSR_POLICY_PROCESS)
        rule->holds_never = !in_this_process(rules, spec->process);
    if (spec->conditions & TSR_POLICY_LIBRARY_CALL)
        choose_library_calls(rules, rule);
    if ((spec->conditions & TSR_POLICY_FUNCTION_REGEX) && !rule->holds_never &&
        regcomp(&rule->regex, text_of(rules, spec->function_regex), REG_EXTENDED | REG_NOSUB) != 0) {
        tsr_error("the regular expression of line %u cannot be compiled; the rule is left out", spec->line);
        rule->holds_never = true;
    }
}

/* Room for as many rules and as much text as the table says, copied. */
static struct tsr_rules *copy(const struct tsr_policy_table *table, int32_t home)
{
    uint32_t count = table->rule_count, text_bytes = table->text_bytes;
    if (count > TSR_POLICY_RULES || text_bytes == 0 || text_bytes > TSR_POLICY_TEXT_BYTES)
        return NULL;
    struct tsr_rules *rules = calloc(1, sizeof *rules + count * sizeof rules->rules[0] + text_bytes);
    if (!rules)
        return NULL;
    rules->count = count;
    rules->text_bytes = text_bytes;
    rules->text = (char *)&rules->rules[count];
    memcpy(rules->text, table->text, text_bytes);
    rules->text[text_bytes - 1] = 0;
    for (uint32_t i = 0; i < count; i++)
        rules->rules[i].spec = table->rules[i];
    rules->default_lane = tsr_session_lane(table->default_device);
    rules->default_leaves = table->default_device != home;
    rules->default_device = table->default_device;
    rules->home = home;
    rules->verify_every = table->verify_every;
    rules->verify_limit_bytes = table->verify_limit_bytes;
    rules->log_decisions = table->log_decisions;
    return rules;
}

struct tsr_rules *tsr_rules_create(const struct tsr_policy *policy)
{
    uint32_t generation = __atomic_load_n(&policy->generation, __ATOMIC_ACQUIRE);
    struct tsr_rules *rules = copy(&policy->tables[generation % 2], (int32_t)policy->home);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&policy->generation, __ATOMIC_RELAXED) != generation) {
        free(rules);
        return NULL;
    }
    int saved_errno = errno;
    if (rules) {
        rules->generation = generation;
        for (uint32_t i = 0; i < rules->count; i++)
            prepare(rules, i);
    }
    errno = saved_errno;
    return rules;
}

void tsr_rules_destroy(struct tsr_rules *rules)
{
    for (uint32_t i = 0; rules && i < rules->count; i++)
        if ((rules->rules[i].spec.conditions & TSR_POLICY_FUNCTION_REGEX) && !rules->rules[i].holds_never)
            regfree(&rules->rules[i].regex);
    free(rules);
}

static bool module_matches(const struct tsr_rules *rules, uint32_t glob, struct tsr_module_record *module)
{
    if (matches(rules, glob, tsr_module_name(module)))
        return true;
    char hash[17];
    tsr_format(hash, sizeof hash, "%016llx", (unsigned long long)tsr_module_hash(module));
    return matches(rules, glob, hash);
}

/* A function by the driver's name, by the declaration that it stands for, and by the name in that; NULL: not mangled. */
struct names {
    const char *mangled, *declaration, *name;
};

static bool function_matches(const struct tsr_rules *rules, uint32_t glob, const struct names *names)
{
    return matches(rules, glob, names->mangled) ||
           (names->declaration && (matches(rules, glob, names->declaration) || matches(rules, glob, names->name)));
}

static bool may_hold(const struct tsr_rules *rules, const struct tsr_rule *rule, const struct tsr_function_record *function,
                     const struct names *names)
{
    const struct tsr_policy_rule *spec = &rule->spec;
    const char *name = names->mangled;
    if (rule->holds_never)
        return false;
    if ((spec->conditions & TSR_POLICY_FUNCTION) && !function_matches(rules, spec->function, names))
        return false;
    if ((spec->conditions & TSR_POLICY_FUNCTION_REGEX) && regexec(&rule->regex, name, 0, NULL, 0) != 0)
        return false;
    return !(spec->conditions & TSR_POLICY_MODULE) ||
           (function->module && module_matches(rules, spec->module, function->module));
}

/* The memory that the names lie in; NULL: the function has only the driver's. */
static char *demangle(const char *mangled, struct names *names)
{
    struct tsr_demangled *found = malloc(sizeof *found);
    size_t whole = found && tsr_demangle(mangled, found) ? strlen(found->text) + 1 : 0;
    char *text = whole ? malloc(whole + found->name_end - found->name + 1) : NULL;
    if (text) {
        memcpy(text, found->text, whole);
        memcpy(text + whole, found->text + found->name, found->name_end - found->name);
        text[whole + found->name_end - found->name] = 0;
        names->declaration = text;
        names->name = text + whole;
    }
    free(found);
    return text;
}

void tsr_rules_match(const struct tsr_rules *rules, const struct tsr_function_record *function,
                     uint64_t candidates[TSR_RULES_WORDS])
{
    int saved_errno = errno;
    struct names names = {.mangled = function->name ? function->name : ""};
    char *demangled = demangle(names.mangled, &names);
    memset(candidates, 0, TSR_RULES_WORDS * sizeof candidates[0]);
    for (uint32_t i = 0; i < rules->count; i++)
        if (may_hold(rules, &rules->rules[i], function, &names))
            candidates[i / 64] |= 1ull << (i % 64);
    free(demangled);
    errno = saved_errno;
}
