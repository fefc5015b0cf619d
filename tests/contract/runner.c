/*
 * The runner of the contract suite. The first process never touches CUDA: it starts itself once per group (`--group NAME`), reads
 * what happened from a pipe and adds it up. A group that dies, or is silent for SILENT_SECONDS, fails the test it was
 * in and is started again after that test.
 *
 *     contract [--list] [--driver] [--json FILE] [FILTER...]     filters are parts of "group.test"; --driver tells what is tested
 *
 * Lines on the pipe (descriptor REPORT): "T test", "P", "F file:line: what", "G file:line: what", "K reason", "E checks places".
 */
#include "contract.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT 3
#define SILENT_SECONDS 30

static struct contract_group *groups, **groups_end = &groups;
static struct contract_role *roles;

void contract_add_group(struct contract_group *group)
{
    *groups_end = group;
    groups_end = &group->next;
}

void contract_add_role(struct contract_role *role)
{
    role->next = roles;
    roles = role;
}

/* In the process of a group. */

static long checks, places;
static char seen[1 << 16]; /* one bit per (file, line), hashed; a collision under-counts */

static void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void report(const char *format, ...)
{
    char line[2048];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof(line) - 1, format, values);
    va_end(values);
    if (length > (int)sizeof(line) - 2)
        length = (int)sizeof(line) - 2;
    for (int i = 0; i < length; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[length++] = '\n';
    for (int done = 0; done < length;) {
        ssize_t wrote = write(REPORT, line + done, (size_t)(length - done));
        if (wrote <= 0)
            break;
        done += (int)wrote;
    }
}

/* Tests check in threads of their own too. */
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void count(struct contract_site site)
{
    unsigned hash = (unsigned)site.line * 2654435761u;
    for (const char *c = site.file; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    unsigned slot = (hash ^ hash >> 13) % (sizeof(seen) * 8);
    pthread_mutex_lock(&counting);
    checks++;
    if (!(seen[slot / 8] & 1 << slot % 8))
        places++;
    seen[slot / 8] |= (char)(1 << slot % 8);
    pthread_mutex_unlock(&counting);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *code_name(long long code)
{
    const char *name = NULL;
    return cuGetErrorName((CUresult)code, &name) == CUDA_SUCCESS && name ? name : "?";
}

int contract_result(struct contract_site site, int guess, CUresult actual, CUresult expected)
{
    count(site);
    if (actual == expected)
        return 1;
    report("%s %s:%d: %s is %s (%d), expected %s (%d)", guess ? "G" : "F", base_name(site.file), site.line, site.text,
           code_name(actual), (int)actual, code_name(expected), (int)expected);
    return 0;
}

int contract_equal(struct contract_site site, int guess, long long actual, long long expected)
{
    count(site);
    if (actual == expected)
        return 1;
    report("%s %s:%d: %s: %lld (0x%llx), expected %lld (0x%llx)", guess ? "G" : "F", base_name(site.file), site.line, site.text,
           actual, (unsigned long long)actual, expected, (unsigned long long)expected);
    return 0;
}

int contract_true(struct contract_site site, int guess, int holds)
{
    count(site);
    if (!holds)
        report("%s %s:%d: not true: %s", guess ? "G" : "F", base_name(site.file), site.line, site.text);
    return holds;
}

int contract_text(struct contract_site site, const char *actual, const char *expected)
{
    count(site);
    if (actual && expected && strcmp(actual, expected) == 0)
        return 1;
    report("F %s:%d: %s is \"%s\", expected \"%s\"", base_name(site.file), site.line, site.text, actual ? actual : "(null)",
           expected ? expected : "(null)");
    return 0;
}

int contract_bytes(struct contract_site site, const void *actual, const void *expected, size_t size)
{
    count(site);
    const unsigned char *a = actual, *b = expected;
    for (size_t i = 0; i < size; i++)
        if (a[i] != b[i]) {
            report("F %s:%d: %s: byte %zu of %zu is 0x%02x, expected 0x%02x", base_name(site.file), site.line, site.text, i,
                   size, a[i], b[i]);
            return 0;
        }
    return 1;
}

void contract_skip(const char *reason)
{
    report("K %s", reason);
}

static int wanted(const struct contract_group *group, const struct contract_test *test, int count_words, char **words)
{
    char name[256];
    snprintf(name, sizeof(name), "%s.%s", group->name, test->name);
    for (int i = 0; i < count_words; i++)
        if (strstr(name, words[i]))
            return 1;
    return count_words == 0;
}

/* Tests up to and including `after` are left out; "" leaves out none. */
static int run_group(const char *name, const char *after, int count_words, char **words)
{
    struct contract_group *group = groups;
    while (group && strcmp(group->name, name) != 0)
        group = group->next;
    if (!group)
        return 2;
    fcntl(REPORT, F_SETFD, FD_CLOEXEC);
    group->setup();
    struct contract_test *test = group->tests;
    while (*after && test) {
        int last = strcmp(test->name, after) == 0;
        test = test->next;
        if (last)
            break;
    }
    for (; test; test = test->next)
        if (wanted(group, test, count_words, words)) {
            report("T %s", test->name);
            test->run();
            report("P");
        }
    report("E %ld %ld", checks, places);
    fflush(NULL);
    _exit(0); /* destructors of a driver in a broken state are not part of the contract */
}

static int run_role(const char *name, int count_words, char **words)
{
    for (struct contract_role *role = roles; role; role = role->next)
        if (strcmp(role->name, name) == 0) {
            int code = role->run(count_words, words);
            fflush(NULL);
            _exit(code);
        }
    return 2;
}

/* In the first process. */

struct totals {
    long passed, failed, skipped, wrong, guesses, checks, places;
};

struct progress {
    const char *group;
    char test[128];
    int inside, bad, skipped;
    struct totals *totals;
    FILE *json;
    int items;
};

static void json_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if ((unsigned char)*text >= 32)
            fputc(*text, file);
    }
    fputc('"', file);
}

static void note(struct progress *progress, const char *kind, const char *text)
{
    printf("%s %s.%s: %s\n", kind, progress->group, progress->test, text);
    if (!progress->json)
        return;
    fprintf(progress->json, "%s\n  {\"kind\": \"%s\", \"test\": \"%s.%s\", \"text\": ", progress->items++ ? "," : "", kind,
            progress->group, progress->test);
    json_text(progress->json, text);
    fputc('}', progress->json);
}

static void finish_test(struct progress *progress)
{
    if (progress->bad)
        progress->totals->failed++;
    else if (progress->skipped)
        progress->totals->skipped++;
    else
        progress->totals->passed++;
    progress->inside = progress->bad = progress->skipped = 0;
}

static void take_line(struct progress *progress, char *line)
{
    const char *text = line[0] && line[1] ? line + 2 : "";
    switch (line[0]) {
    case 'T':
        snprintf(progress->test, sizeof(progress->test), "%s", text);
        progress->inside = 1;
        break;
    case 'P':
        finish_test(progress);
        break;
    case 'F':
        progress->bad = 1;
        progress->totals->wrong++;
        note(progress, "failed", text);
        break;
    case 'G':
        progress->totals->guesses++;
        note(progress, "guess", text);
        break;
    case 'K':
        progress->skipped = 1;
        note(progress, "skipped", text);
        break;
    case 'E': {
        long more_checks = 0, more_places = 0;
        sscanf(text, "%ld %ld", &more_checks, &more_places);
        progress->totals->checks += more_checks;
        progress->totals->places += more_places;
        progress->inside = -1;
        break;
    }
    default:
        break;
    }
}

static void read_report(struct progress *progress, int descriptor, pid_t child)
{
    char buffer[8192];
    size_t fill = 0;
    for (;;) {
        struct pollfd wait = {descriptor, POLLIN, 0};
        if (poll(&wait, 1, SILENT_SECONDS * 1000) == 0) {
            note(progress, "failed", "timed out");
            kill(-child, SIGKILL);
            return;
        }
        ssize_t got = read(descriptor, buffer + fill, sizeof(buffer) - fill);
        if (got <= 0)
            return;
        fill += (size_t)got;
        char *start = buffer, *end;
        while ((end = memchr(start, '\n', (size_t)(buffer + fill - start)))) {
            *end = 0;
            take_line(progress, start);
            start = end + 1;
        }
        fill -= (size_t)(start - buffer);
        memmove(buffer, start, fill);
    }
}

/* One process of a group; zero when it ended inside progress->test. */
static int start_group(struct progress *progress, const char *after, int count_words, char **words)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        char *arguments[64] = {"contract", "--group", (char *)progress->group, (char *)after};
        for (int i = 0; i < count_words && i < 59; i++)
            arguments[4 + i] = words[i];
        setpgid(0, 0);
        if (ends[1] == REPORT)
            fcntl(REPORT, F_SETFD, 0);
        else
            dup2(ends[1], REPORT);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    close(ends[1]);
    progress->inside = 0;
    read_report(progress, ends[0], child);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    kill(-child, SIGKILL);
    if (progress->inside == -1)
        return 1;
    char text[128];
    snprintf(text, sizeof(text), "the process of the group ended early (%s %d)", WIFSIGNALED(status) ? "signal" : "exit",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    note(progress, "failed", text);
    progress->bad = 1;
    finish_test(progress);
    return 0;
}

static void run_whole_group(struct contract_group *group, int count_words, char **words, struct totals *totals, FILE *json,
                            int *items)
{
    struct progress progress = {.group = group->name, .totals = totals, .json = json, .items = *items};
    char after[sizeof(progress.test)] = "";
    for (;;) {
        strcpy(progress.test, "(setup)");
        if (start_group(&progress, after, count_words, words) || strcmp(progress.test, "(setup)") == 0)
            break;
        strcpy(after, progress.test);
    }
    *items = progress.items;
}

static int list_tests(void)
{
    for (struct contract_group *group = groups; group; group = group->next)
        for (struct contract_test *test = group->tests; test; test = test->next)
            printf("%s.%s\n", group->name, test->name);
    return 0;
}

static int name_driver(void)
{
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, "cuInit");
    if (!function || !dladdr(function, &info))
        return 1;
    puts(info.dli_fname);
    return 0;
}

static int run_all(const char *json_path, int count_words, char **words)
{
    struct totals totals = {0};
    int items = 0;
    FILE *json = json_path ? fopen(json_path, "w") : NULL;
    if (json_path && !json) {
        perror(json_path);
        return 2;
    }
    if (json)
        fputs("{\"notes\": [", json);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (struct contract_group *group = groups; group; group = group->next) {
        int any = 0;
        for (struct contract_test *test = group->tests; test; test = test->next)
            any |= wanted(group, test, count_words, words);
        if (any)
            run_whole_group(group, count_words, words, &totals, json, &items);
    }
    printf("%ld checks at %ld places, %ld wrong, %ld guesses differ, %ld tests skipped\n", totals.checks, totals.places,
           totals.wrong, totals.guesses, totals.skipped);
    printf("%ld passed, %ld failed\n", totals.passed, totals.failed);
    if (json) {
        fprintf(json,
                "],\n \"passed\": %ld, \"failed\": %ld, \"skipped\": %ld, \"checks\": %ld, \"places\": %ld, \"wrong\": %ld, "
                "\"guesses\": %ld}\n",
                totals.passed, totals.failed, totals.skipped, totals.checks, totals.places, totals.wrong, totals.guesses);
        fclose(json);
    }
    return totals.failed || !totals.passed;
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "--group") == 0)
        return run_group(argv[2], argv[3], argc - 4, argv + 4);
    if (argc > 2 && strcmp(argv[1], "--role") == 0)
        return run_role(argv[2], argc - 3, argv + 3);
    if (argc > 1 && strcmp(argv[1], "--list") == 0)
        return list_tests();
    if (argc > 1 && strcmp(argv[1], "--driver") == 0)
        return name_driver();
    if (argc > 2 && strcmp(argv[1], "--json") == 0)
        return run_all(argv[2], argc - 3, argv + 3);
    return run_all(NULL, argc - 1, argv + 1);
}
