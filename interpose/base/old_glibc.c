/*
 * Functions of the C library that glibc 2.28 does not have, under their own names, so that nobody need know. The C library's are called
 * where sanitizers have something to do in them.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fstat(int descriptor, struct stat *status)
{
    return (int)syscall(SYS_fstat, descriptor, status); /* the kernel's struct is the C library's */
}

pid_t gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

#else
typedef int tsr_empty;
#endif
