/*
 * Preloaded: who wakes another process by a futex goes on only a while later, as a thread does that loses its core there.
 * TESSERA_LATE_MARK is a file that appears when it has happened.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LATE_NS 100000000l

typedef long call(long number, ...);

static void be_late(void)
{
    struct timespec late = {.tv_nsec = LATE_NS};
    const char *mark = getenv("TESSERA_LATE_MARK");
    if (mark)
        close(open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    nanosleep(&late, NULL);
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long words[6]; /* as many as the kernel takes, whatever the caller gave */
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    static call *next;
    call *found = __atomic_load_n(&next, __ATOMIC_RELAXED);
    if (!found) {
        found = (call *)dlsym(RTLD_NEXT, "syscall");
        __atomic_store_n(&next, found, __ATOMIC_RELAXED);
    }
    long result = found(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number == SYS_futex && words[1] == FUTEX_WAKE)
        be_late();
    return result;
}
