/* See log.h. */
#include "base/log.h"

#include "base/format.h"
#include "base/options.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#define BURST 20
#define INTERVAL_NS 1000000000ull

int tsr_log_threshold = -1;
static struct tsr_os_file log_file = {.descriptor = -1};

int tsr_log_threshold_read(void)
{
    return tsr_options()->log_level;
}

void tsr_log_configure(int level, const char *file)
{
    if (*file) {
        int descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (descriptor >= 0)
            log_file = tsr_os_file_keep(descriptor);
    }
    __atomic_store_n(&tsr_log_threshold, level, __ATOMIC_RELEASE);
}

/*
 * A bucket kept as one time: each line moves next_ns one interval further, and a line is refused when that is more than BURST
 * intervals ahead of now.
 */
static bool site_admits(struct tsr_log_site *site)
{
    uint64_t now = tsr_os_monotonic_ns();
    uint64_t next = __atomic_load_n(&site->next_ns, __ATOMIC_RELAXED);
    uint64_t after;
    do {
        after = (next > now ? next : now) + INTERVAL_NS;
        if (after > now + BURST * INTERVAL_NS) {
            __atomic_fetch_add(&site->left_out, 1, __ATOMIC_RELAXED);
            return false;
        }
    } while (!__atomic_compare_exchange_n(&site->next_ns, &next, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

/* Of a pipe that nobody reads or a file that may not grow, no more is to be heard than that the line is dropped. */
static void write_quietly(int descriptor, const char *line, size_t length)
{
    sigset_t raised, waiting, before;
    sigemptyset(&raised);
    sigaddset(&raised, SIGPIPE);
    sigaddset(&raised, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &raised, &before);
    sigpending(&waiting);
    bool written = tsr_os_write_all(descriptor, line, length);
    sigdelset(&raised, errno == EPIPE ? SIGXFSZ : SIGPIPE);
    if (!written && !sigismember(&waiting, errno == EPIPE ? SIGPIPE : SIGXFSZ))
        sigtimedwait(&raised, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void write_line(const char *line, size_t length)
{
    if (log_file.descriptor < 0)
        write_quietly(STDERR_FILENO, line, length);
    else if (tsr_os_file_is_ours(&log_file)) /* the program may have closed it, and opened one of its own */
        write_quietly(log_file.descriptor, line, length);
}

void tsr_log_write(struct tsr_log_site *site, enum tsr_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char line[1024];
    int saved_errno = errno;
    if (site_admits(site)) {
        size_t room = sizeof line - 1; /* the line end always fits */
        size_t length = tsr_format(line, room, "tessera[%d] %s: ", (int)getpid(), names[level]);
        va_list values;
        va_start(values, format);
        length += tsr_format_list(line + length, room - length, format, values);
        va_end(values);
        unsigned left_out = __atomic_exchange_n(&site->left_out, 0, __ATOMIC_RELAXED);
        if (left_out)
            length += tsr_format(line + length, room - length, " (%u like this left out before)", left_out);
        line[length++] = '\n';
        write_line(line, length);
    }
    errno = saved_errno;
}
