/* See seen.h. */
#include "shim/seen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "driver/loader.h"
#include "driver/real.h"

#define DRIVER_FILE "/libcuda.so." /* and a version; files named libcuda.so are for linking only */

static int started;                      /* atomic */
static uint64_t look_ups, look_ups_ours; /* atomic */

void tsr_seen_start(void)
{
    __atomic_store_n(&started, 1, __ATOMIC_RELAXED);
}

void tsr_seen_look_up(bool ours)
{
    __atomic_fetch_add(&look_ups, 1, __ATOMIC_RELAXED);
    if (ours)
        __atomic_fetch_add(&look_ups_ours, 1, __ATOMIC_RELAXED);
}

struct lines {
    int file;
    size_t used, given; /* bytes in text; of these, the last line given out */
    char text[2 * PATH_MAX];
};

/* The next line without its end, valid until the next call; NULL after the last one. A line too long for the buffer ends it, too. */
static char *next_line(struct lines *lines)
{
    memmove(lines->text, lines->text + lines->given, lines->used - lines->given);
    lines->used -= lines->given;
    char *end;
    while (!(end = memchr(lines->text, '\n', lines->used))) {
        ssize_t bytes = read(lines->file, lines->text + lines->used, sizeof lines->text - lines->used);
        if (bytes <= 0)
            return NULL;
        lines->used += (size_t)bytes;
    }
    *end = 0;
    lines->given = (size_t)(end - lines->text) + 1;
    return lines->text;
}

static uintptr_t hexadecimal(const char *text)
{
    uintptr_t number = 0;
    for (; (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f'); text++)
        number = number << 4 | (uintptr_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    return number;
}

/* Of a line of /proc/self/maps, "start-end permissions offset device inode path": the path if a driver's file begins there. */
static const char *driver_beginning_in(const char *line, uintptr_t *start)
{
    *start = hexadecimal(line);
    const char *permissions = strchr(line, ' ');
    const char *offset = permissions ? strchr(permissions + 1, ' ') : NULL;
    const char *path = strchr(line, '/');
    if (!offset || !path || hexadecimal(offset + 1) != 0)
        return NULL;
    return strncmp(strrchr(path, '/'), DRIVER_FILE, strlen(DRIVER_FILE)) == 0 ? path : NULL;
}

bool tsr_seen_nothing(char *path, size_t bytes)
{
    if (__atomic_load_n(&started, __ATOMIC_RELAXED))
        return false;
    struct lines lines = {.file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    if (lines.file < 0)
        return false;
    const char *found = NULL;
    for (char *line; !found && (line = next_line(&lines));) {
        uintptr_t start;
        found = driver_beginning_in(line, &start);
        if (found && (start == tsr_loader_self_start() || start == tsr_real_start()))
            found = NULL;
    }
    close(lines.file);
    if (found) {
        strncpy(path, found, bytes - 1);
        path[bytes - 1] = 0;
    }
    return found != NULL;
}

/* Cheap where the driver was never asked for: a shell's children end here by the hundred. */
__attribute__((destructor)) static void say_what_was_seen(void)
{
    int saved_errno = errno;
    char path[PATH_MAX];
    if (tsr_log_wants(TSR_LOG_WARN) && tsr_seen_nothing(path, sizeof path))
        tsr_warn("this process has loaded the CUDA driver %s past Tessera, which saw nothing of its use", path);
    uint64_t all = __atomic_load_n(&look_ups, __ATOMIC_RELAXED);
    if (all)
        tsr_info("%lu look-ups of driver functions, %lu answered with a wrapper", all,
                 __atomic_load_n(&look_ups_ours, __ATOMIC_RELAXED));
    errno = saved_errno;
}
