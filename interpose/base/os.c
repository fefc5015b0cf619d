/* See os.h. */
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FIRST_KEPT_DESCRIPTOR 256

/* A file that grows beyond the process' limit would raise a signal. */
static bool may_grow_to(uint64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes)
        return true;
    errno = EFBIG;
    return false;
}

int tsr_os_memfd(const char *name, uint64_t bytes)
{
    if (!may_grow_to(bytes))
        return -1;
    int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor >= 0 && ftruncate(descriptor, (off_t)bytes) != 0) {
        int saved_errno = errno;
        close(descriptor);
        errno = saved_errno;
        return -1;
    }
    return descriptor;
}

bool tsr_os_seal(int descriptor, int seals)
{
    return fcntl(descriptor, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0;
}

bool tsr_os_is_sealed(int descriptor, int seals, uint64_t bytes)
{
    struct stat status;
    int has = fcntl(descriptor, F_GET_SEALS);
    return has >= 0 && (has & seals) == seals && fstat(descriptor, &status) == 0 && (uint64_t)status.st_size >= bytes;
}

int tsr_os_open_own(const char *path, int flags)
{
    struct stat status;
    int descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return -1;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid())
        return descriptor;
    close(descriptor);
    errno = EPERM;
    return -1;
}

bool tsr_os_allocate(int descriptor, uint64_t offset, uint64_t bytes)
{
    if (!may_grow_to(offset + bytes))
        return false;
    int failed;
    do
        failed = fallocate(descriptor, 0, (off_t)offset, (off_t)bytes);
    while (failed && errno == EINTR);
    return !failed;
}

struct tsr_os_file tsr_os_file_keep(int descriptor)
{
    struct tsr_os_file file = {.descriptor = descriptor};
    int high = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_KEPT_DESCRIPTOR);
    if (high >= 0) {
        close(descriptor);
        file.descriptor = high;
    }
    struct stat status;
    if (fstat(file.descriptor, &status) == 0) {
        file.device = status.st_dev;
        file.inode = status.st_ino;
    }
    return file;
}

bool tsr_os_file_is_ours(const struct tsr_os_file *file)
{
    struct stat status;
    return file->descriptor >= 0 && fstat(file->descriptor, &status) == 0 && status.st_dev == file->device &&
           status.st_ino == file->inode;
}

void tsr_os_file_close(struct tsr_os_file *file)
{
    if (tsr_os_file_is_ours(file))
        close(file->descriptor);
    file->descriptor = -1;
}

static void *map(void *address, uint64_t bytes, int protection, int flags, int descriptor, uint64_t offset)
{
    flags |= descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *result = mmap(address, bytes, protection, flags | MAP_NORESERVE, descriptor, (off_t)offset);
    return result == MAP_FAILED ? NULL : result;
}

/* Kernels before 4.17 take MAP_FIXED_NOREPLACE for a hint and answer elsewhere. */
static void *map_exactly(void *address, uint64_t bytes, int protection, int descriptor, uint64_t offset)
{
    void *result = map(address, bytes, protection, address ? MAP_FIXED_NOREPLACE : 0, descriptor, offset);
    if (result && address && result != address) {
        munmap(result, bytes);
        errno = EEXIST;
        return NULL;
    }
    return result;
}

void *tsr_os_reserve(void *address, uint64_t bytes)
{
    return map_exactly(address, bytes, PROT_NONE, -1, 0);
}

void *tsr_os_map(void *address, uint64_t bytes, int protection, int descriptor, uint64_t offset)
{
    return map_exactly(address, bytes, protection, descriptor, offset);
}

void *tsr_os_map_over(void *address, uint64_t bytes, int protection, int descriptor, uint64_t offset)
{
    return map(address, bytes, protection, MAP_FIXED, descriptor, offset);
}

void *tsr_os_map_again(void *address, uint64_t bytes)
{
    void *again = mremap(address, 0, bytes, MREMAP_MAYMOVE);
    return again == MAP_FAILED ? NULL : again;
}

bool tsr_os_unmap_to_reserved(void *address, uint64_t bytes)
{
    return map(address, bytes, PROT_NONE, MAP_FIXED, -1, 0) != NULL;
}

bool tsr_os_unmap(void *address, uint64_t bytes)
{
    return munmap(address, bytes) == 0;
}

bool tsr_os_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        errno = error;
        return false;
    }
    pthread_setname_np(*thread, name);
    return true;
}

bool tsr_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns, bool between_processes)
{
    int operation = FUTEX_WAIT | (between_processes ? 0 : FUTEX_PRIVATE_FLAG);
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    int saved_errno = errno;
    long result = syscall(SYS_futex, word, operation, expected, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 0);
    bool timed_out = result < 0 && errno == ETIMEDOUT;
    errno = saved_errno;
    return !timed_out;
}

void tsr_os_futex_wake(const uint32_t *word, unsigned waiters, bool between_processes)
{
    int operation = FUTEX_WAKE | (between_processes ? 0 : FUTEX_PRIVATE_FLAG);
    int saved_errno = errno;
    syscall(SYS_futex, word, operation, waiters > INT32_MAX ? INT32_MAX : (int)waiters, NULL, NULL, 0);
    errno = saved_errno;
}

static bool member(int command)
{
    int saved_errno = errno;
    long result = syscall(SYS_membarrier, command, 0, 0);
    errno = saved_errno;
    return result == 0;
}

bool tsr_os_barrier_register(void)
{
#ifdef __SANITIZE_THREAD__
    return false;
#else
    return member(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
#endif
}

bool tsr_os_barrier(void)
{
    return member(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

uint64_t tsr_os_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The state follows the name, which is in parentheses and may itself contain some. R: runnable; D: waits for a disk, as for pages of a program. */
static bool is_ready(int tasks, const char *task)
{
    char path[64], text[128] = "";
    snprintf(path, sizeof path, "%.16s/stat", task);
    int file = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    const char *end = bytes > 0 ? strrchr(text, ')') : NULL;
    return end && (strncmp(end, ") R", 3) == 0 || strncmp(end, ") D", 3) == 0);
}

bool tsr_os_process_is_ready(int process)
{
    char path[32];
    int saved_errno = errno;
    bool ready = false;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    for (const struct dirent *task; tasks && !ready && (task = readdir(tasks));)
        ready = task->d_name[0] != '.' && is_ready(dirfd(tasks), task->d_name);
    if (tasks)
        closedir(tasks);
    errno = saved_errno;
    return ready;
}

unsigned tsr_os_cpu_count(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (unsigned)count : 1;
}

bool tsr_os_write_all(int descriptor, const void *data, size_t bytes)
{
    const char *next = data;
    while (bytes) {
        ssize_t written = write(descriptor, next, bytes);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return false;
        }
        next += written;
        bytes -= (size_t)written;
    }
    return true;
}
