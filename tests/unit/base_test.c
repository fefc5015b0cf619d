/* base/: formatting, options, the log's rate limit, arrays and contact with the operating system. */
#include "check.h"

#include "base/fork.h"
#include "base/format.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_FORMAT(...)                                                                                                      \
    do {                                                                                                                       \
        char ours[256], libc[256];                                                                                             \
        size_t length = tsr_format(ours, sizeof ours, __VA_ARGS__);                                                            \
        snprintf(libc, sizeof libc, __VA_ARGS__);                                                                              \
        CHECK_STR(ours, libc);                                                                                                 \
        CHECK_EQ(length, strlen(libc));                                                                                        \
    } while (0)

TEST(format_gives_what_libc_gives)
{
    CHECK_FORMAT("plain %% text");
    CHECK_FORMAT("%d %d %d %i", 0, INT_MIN, INT_MAX, -1);
    CHECK_FORMAT("%ld %lld %zu %jd", LONG_MIN, LLONG_MAX, SIZE_MAX, (intmax_t)-5);
    CHECK_FORMAT("%hhd %hhu %hd %hu", (signed char)-3, (unsigned char)200, (short)-300, (unsigned short)65535);
    CHECK_FORMAT("%u %x %X %lx", 4000000000u, 0xdeadbeefu, 0xabcu, 0x123456789abcdefl);
    CHECK_FORMAT("[%5d|%-5d|%05d|%5d]", 42, 42, -42, 1234567);
    CHECK_FORMAT("[%8s|%-8s|%.2s|%.*s]", "abc", "abc", "abc", 1, "abc");
    CHECK_FORMAT("%c%c %p", 'a', 'b', (void *)0x1000);
}

TEST(format_cuts_at_the_end_of_the_buffer)
{
    char buffer[6];
    CHECK_EQ(tsr_format(buffer, sizeof buffer, "%s", "0123456789"), 5);
    CHECK_STR(buffer, "01234");
    CHECK_EQ(tsr_format(buffer, 0, "%d", 1), 0);
    CHECK_EQ(tsr_format(buffer, 1, "%d", 1), 0);
    CHECK_STR(buffer, "");
}

static const char *look_up_nothing(const char *variable)
{
    (void)variable;
    return NULL;
}

static const char *look_up_values(const char *variable)
{
    if (strcmp(variable, "TESSERA_LOG") == 0)
        return "debug";
    if (strcmp(variable, "TESSERA_WORKERS") == 0)
        return "18446744073709551615";
    return strcmp(variable, "TESSERA_MACHINE") == 0 ? "/proc/1/fd/3" : NULL;
}

static char too_long[1100];

static const char *look_up_nonsense(const char *variable)
{
    memset(too_long, 'x', sizeof too_long - 1);
    if (strcmp(variable, "TESSERA_LOG") == 0)
        return "loud";
    if (strcmp(variable, "TESSERA_WORKERS") == 0)
        return "18446744073709551616";
    return strcmp(variable, "TESSERA_MACHINE") == 0 ? too_long : NULL;
}

TEST(options_parse_values_and_fall_back_to_defaults)
{
    struct tsr_options options;
    CHECK_EQ(tsr_options_parse(&options, look_up_nothing), 0);
    CHECK_EQ(options.log_level, TSR_LOG_WARN);
    CHECK_STR(options.machine, "");
    CHECK_EQ(tsr_options_parse(&options, look_up_values), 0);
    CHECK_EQ(options.log_level, TSR_LOG_DEBUG);
    CHECK_EQ(options.workers, UINT64_MAX);
    CHECK_STR(options.machine, "/proc/1/fd/3");
    CHECK_EQ(tsr_options_parse(&options, look_up_nonsense), 3);
    CHECK_EQ(options.log_level, TSR_LOG_WARN);
    CHECK_EQ(options.workers, 0);
    CHECK_STR(options.machine, "");
}

/* How many lines one call site writes when it logs `calls` times at once; text receives the last bytes. */
static int lines_logged(int calls, char *text, size_t size)
{
    int lines = 0, pipe_ends[2], saved = dup(STDERR_FILENO);
    ssize_t length;
    if (pipe(pipe_ends) != 0)
        return -1;
    dup2(pipe_ends[1], STDERR_FILENO);
    tsr_options();
    for (int i = 0; i < calls; i++)
        tsr_error("call %d", i);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipe_ends[1]);
    length = read(pipe_ends[0], text, size - 1);
    close(pipe_ends[0]);
    text[length < 0 ? 0 : length] = 0;
    for (const char *next = text; (next = strchr(next, '\n')); next++)
        lines++;
    return lines;
}

TEST(log_limits_each_call_site_and_keeps_errno)
{
    char text[4096], first[64];
    errno = EDOM;
    int lines = lines_logged(1000, text, sizeof text);
    CHECK_EQ(errno, EDOM);
    CHECK(lines >= 20 && lines <= 22); /* the burst, and what a slow machine earns meanwhile */
    snprintf(first, sizeof first, "tessera[%d] error: call 0\n", (int)getpid());
    CHECK(strncmp(text, first, strlen(first)) == 0);
}

/* How a child of this process ends. */
static int status_of(void (*run)(void))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(3);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void log_to_nobody(void)
{
    int ends[2];
    signal(SIGPIPE, SIG_DFL);
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        _exit(4);
    close(ends[0]);
    tsr_error("nobody reads this");
    sigset_t waiting;
    if (sigpending(&waiting) != 0 || sigismember(&waiting, SIGPIPE))
        _exit(5);
}

static void log_beyond_the_limit(void)
{
    char path[] = "/tmp/base_test-XXXXXX";
    int file = mkstemp(path);
    unlink(path);
    signal(SIGXFSZ, SIG_DFL);
    if (file < 0 || dup2(file, STDERR_FILENO) < 0 || setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}) != 0)
        _exit(4);
    tsr_error("there is no room for this");
}

TEST(a_line_that_cannot_be_written_is_no_signal)
{
    CHECK_EQ(status_of(log_to_nobody), 3 << 8);
    CHECK_EQ(status_of(log_beyond_the_limit), 3 << 8);
}

#define MOST_DESCRIPTORS 512

static void log_after_all_is_closed(void)
{
    char log[] = "/tmp/base_test-XXXXXX", other[] = "/tmp/base_test-XXXXXX";
    if (mkstemp(log) < 0)
        _exit(4);
    tsr_options();
    tsr_log_configure(TSR_LOG_ERROR, log);
    for (int i = 3; i < MOST_DESCRIPTORS; i++)
        close(i);
    int own = mkstemp(other);
    unlink(other);
    for (int i = 3; i < MOST_DESCRIPTORS; i++)
        if (dup2(own, i) < 0)
            _exit(5);
    tsr_error("this is not for the program's file");
    unlink(log); /* only now: another file could be given its number */
    if (lseek(own, 0, SEEK_END) != 0)
        _exit(6);
}

TEST(a_line_gets_into_no_file_of_the_program)
{
    CHECK_EQ(status_of(log_after_all_is_closed), 3 << 8);
}

TEST(vec_grows_and_removes)
{
    TSR_VEC(int) numbers = {0};
    for (int i = 0; i < 1000; i++)
        REQUIRE(tsr_vec_push(&numbers, i * 3));
    CHECK_EQ(numbers.count, 1000);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(numbers.data[i], i * 3);
    tsr_vec_remove_swap(&numbers, 0);
    CHECK_EQ(numbers.data[0], 2997);
    CHECK_EQ(tsr_vec_pop(&numbers), 998 * 3);
    CHECK_EQ(numbers.count, 998);
    CHECK(!tsr_vec_reserve(&numbers, SIZE_MAX / 2));
    CHECK_EQ(numbers.count, 998);
    tsr_vec_fini(&numbers);
    CHECK(!numbers.data && !numbers.capacity);
}

TEST(map_never_clobbers_an_existing_mapping)
{
    const uint64_t bytes = 1 << 20;
    char *range = tsr_os_reserve(NULL, bytes);
    REQUIRE(range);
    CHECK(!tsr_os_reserve(range, 4096));
    CHECK(!tsr_os_map(range + 4096, 4096, PROT_READ, -1, 0));
    int descriptor = tsr_os_memfd("test", bytes);
    REQUIRE(descriptor >= 0);
    CHECK(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
    char *over = tsr_os_map_over(range + 8192, 4096, PROT_READ | PROT_WRITE, descriptor, 4096);
    CHECK(over == range + 8192);
    char *again = tsr_os_map(NULL, bytes, PROT_READ, descriptor, 0);
    REQUIRE(over && again);
    over[5] = 77;
    CHECK_EQ(again[4096 + 5], 77);
    CHECK(tsr_os_unmap_to_reserved(over, 4096));
    CHECK(!tsr_os_reserve(over, 4096));
    CHECK(tsr_os_unmap(range, bytes));
    CHECK(tsr_os_reserve(range, bytes) == range);
    tsr_os_unmap(range, bytes);
    tsr_os_unmap(again, bytes);
    close(descriptor);
}

TEST(a_process_is_ready_while_it_would_run)
{
    pid_t busy = fork();
    for (volatile unsigned turns = 0; busy == 0; turns++)
        ;
    pid_t waiting = fork();
    while (waiting == 0)
        pause();
    pid_t reading = fork(); /* as for the disk: until the child ends */
    while (reading == 0 && setpgid(0, 0) == 0 && syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0)
        pause(); /* its own memory, unlike vfork's; sanitizers make a fork of that */
    int status;
    CHECK(tsr_os_process_is_ready(busy));
    kill(busy, SIGSTOP);
    waitpid(busy, &status, WUNTRACED);
    CHECK(!tsr_os_process_is_ready(busy));
    kill(busy, SIGCONT);
    waitpid(busy, &status, WCONTINUED);
    CHECK(tsr_os_process_is_ready(busy));
    for (unsigned looks = 0; tsr_os_process_is_ready(waiting) && looks < 10000; looks++)
        usleep(1000);
    CHECK(!tsr_os_process_is_ready(waiting));
    for (unsigned looks = 0; looks < 200; looks++) {
        CHECK(tsr_os_process_is_ready(reading));
        usleep(1000);
    }
    kill(busy, SIGKILL);
    kill(waiting, SIGKILL);
    kill(-reading, SIGKILL); /* and its child */
    waitpid(busy, &status, 0);
    waitpid(waiting, &status, 0);
    waitpid(reading, &status, 0);
    CHECK(!tsr_os_process_is_ready(busy));
    CHECK(!tsr_os_process_is_ready(-1));
}

static uint32_t futex_word;

static void *wake_later(void *argument)
{
    __atomic_store_n(&futex_word, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&futex_word, 1, false);
    return argument;
}

TEST(futex_times_out_and_wakes)
{
    pthread_t thread;
    futex_word = 0;
    uint64_t before = tsr_os_monotonic_ns();
    CHECK(!tsr_os_futex_wait(&futex_word, 0, 2000000, false));
    CHECK(tsr_os_monotonic_ns() - before >= 2000000);
    CHECK(tsr_os_futex_wait(&futex_word, 1, UINT64_MAX, false));
    REQUIRE(tsr_os_thread_start(&thread, "tsr-test", wake_later, &futex_word));
    while (!__atomic_load_n(&futex_word, __ATOMIC_ACQUIRE))
        tsr_os_futex_wait(&futex_word, 0, UINT64_MAX, false);
    void *result;
    pthread_join(thread, &result);
    CHECK(result == &futex_word);
}

TEST(cpu_count_respects_affinity)
{
    cpu_set_t before, one;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    CHECK_EQ(tsr_os_cpu_count(), CPU_COUNT(&before));
    sched_setaffinity(0, sizeof one, &one);
    CHECK_EQ(tsr_os_cpu_count(), 1);
    sched_setaffinity(0, sizeof before, &before);
}

static char told[16];

static void tell(char who)
{
    size_t length = strlen(told);
    told[length] = who;
}

static void first_before(void)
{
    tell('a');
}

static void first_after(void)
{
    tell('b');
}

static void first_in_child(void)
{
    tell('c');
}

static void second_before(void)
{
    tell('A');
}

static void second_in_child(void)
{
    tell('C');
}

TEST(forks_are_told_in_order_and_once)
{
    static const struct tsr_fork_listener first = {first_before, first_after, first_in_child};
    static const struct tsr_fork_listener second = {.before = second_before, .in_child = second_in_child};
    for (int i = 0; i < 3; i++)
        CHECK(tsr_fork_listen(&first) && tsr_fork_listen(&second));
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        bool here = strcmp(told, "AacC") == 0;
        memset(told, 0, sizeof told);
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(strcmp(told, "AacC") == 0 ? 0 : 1);
        _exit(here && waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 1);
    }
    CHECK_STR(told, "Aab");
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static int taken_for_fork; /* what the late listener has taken and not given back */

static void take_late(void)
{
    taken_for_fork++;
}

static void give_late(void)
{
    taken_for_fork--;
}

static const struct tsr_fork_listener late_listener = {.before = take_late, .in_parent = give_late};

/* As if another thread did it in the middle of this thread's fork. */
static void listen_late(void)
{
    tsr_fork_listen(&late_listener);
}

TEST(a_listener_that_comes_during_a_fork_is_not_called_in_the_parent)
{
    static const struct tsr_fork_listener brings = {.before = listen_late};
    CHECK(tsr_fork_listen(&brings));
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int status = -1;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK_EQ(taken_for_fork, 0);
    }
}

TEST(forks_have_room_for_some_listeners)
{
    static const struct tsr_fork_listener many[64];
    unsigned taken = 0;
    while (taken < 64 && tsr_fork_listen(&many[taken]))
        taken++;
    CHECK(taken > 8 && taken < 64);
    CHECK(tsr_fork_listen(&many[0]));
}
