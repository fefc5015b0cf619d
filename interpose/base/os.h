/*
 * Contact with the operating system: memory files, mappings at chosen addresses, threads, futexes, time, CPUs. Thin: each
 * function is one operation, reports failure by its result with errno set, and keeps no state. Descriptors are close-on-exec.
 */
#ifndef TESSERA_BASE_OS_H
#define TESSERA_BASE_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An anonymous memory file of the given size, which a reader may seal against shrinking; -1 on failure. */
int tsr_os_memfd(const char *name, uint64_t bytes);
/* Fixes a memory file with these F_SEAL_ bits for good. */
bool tsr_os_seal(int descriptor, int seals);
/* Whether a file that came from another process is a memory file with these seals and of at least so many bytes: what is read of it
   through a mapping stays there. */
bool tsr_os_is_sealed(int descriptor, int seals, uint64_t bytes);
/* Opens a file that another process of this user offers by name; errno is EPERM when it is another user's. */
int tsr_os_open_own(const char *path, int flags);
/* Gives that part of a memory file its memory now, growing the file if need be: lack of memory shows here and not as a signal later. */
bool tsr_os_allocate(int descriptor, uint64_t offset, uint64_t bytes);

/*
 * A descriptor kept open in a program that does not know of it: the program may close it, or put a file of its own in its place. Kept above
 * the numbers that programs expect to get.
 */
struct tsr_os_file {
    int descriptor; /* -1: none */
    uint64_t device, inode;
};
/* Takes the descriptor over. */
struct tsr_os_file tsr_os_file_keep(int descriptor);
bool tsr_os_file_is_ours(const struct tsr_os_file *file);
/* Closes it if it is still ours. */
void tsr_os_file_close(struct tsr_os_file *file);

/* Reserves address space without memory behind it, exactly at address (NULL: anywhere); NULL if anything is mapped there. */
void *tsr_os_reserve(void *address, uint64_t bytes);
/* Maps a file (descriptor -1: fresh zeroed memory), exactly at address, only where nothing is mapped yet; NULL otherwise. */
void *tsr_os_map(void *address, uint64_t bytes, int protection, int descriptor, uint64_t offset);
/* The same over a range that the caller has reserved or mapped itself: it is replaced at once, without a gap. */
void *tsr_os_map_over(void *address, uint64_t bytes, int protection, int descriptor, uint64_t offset);
/* Maps memory that is mapped shared a second time, anywhere. NULL on failure. */
void *tsr_os_map_again(void *address, uint64_t bytes);
/* Back to reserved, without memory. */
bool tsr_os_unmap_to_reserved(void *address, uint64_t bytes);
bool tsr_os_unmap(void *address, uint64_t bytes);

/* A joinable thread with all signals blocked, so that the application's handlers never run on it; name has at most 15 bytes. */
bool tsr_os_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument), void *argument);

/* Waits while *word == expected; timeout_ns 0 means no wait, UINT64_MAX for ever. False only on timeout. May return early. */
bool tsr_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns, bool between_processes);
void tsr_os_futex_wake(const uint32_t *word, unsigned waiters, bool between_processes);

/*
 * Barriers in other threads, so that what they do often needs none of its own: what a thread stored before the call is seen by what the others
 * load after it, and what they stored before it by what the caller loads after the call. In between, the others need only keep the compiler
 * from reordering. Registers the process; it holds until the program is replaced. False: the kernel has no such call, or ThreadSanitizer, which
 * does not understand it, is built in.
 */
bool tsr_os_barrier_register(void);
bool tsr_os_barrier(void);

uint64_t tsr_os_monotonic_ns(void);
/* CPUs that the process may run on, at least 1. */
unsigned tsr_os_cpu_count(void);
/* Whether a thread of the process runs, or would if it had a CPU or the disk had answered; false also where nobody can tell. */
bool tsr_os_process_is_ready(int process);
/* Writes everything unless an error stops it; continues after interrupted and short writes. */
bool tsr_os_write_all(int descriptor, const void *data, size_t bytes);

/* How long to sleep between two looks when so much time is left: little of a short time, at most a millisecond. */
static inline uint64_t tsr_os_pause_ns(uint64_t left_ns)
{
    uint64_t part_ns = left_ns / 16 + 1;
    return part_ns < 1000000 ? part_ns : 1000000;
}

#endif
