/*
 * Stands in for nvdisasm, and tries what foreign code could make a disassembler do; the last argument is a file of one word that says what.
 * Writes a line for each attempt that succeeded to standard error, and fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void report(const char *what, long result)
{
    if (result >= 0)
        fprintf(stderr, "%s ", what);
}

static void try_all(char **argv)
{
    char *nothing[] = {NULL}, *own[] = {argv[0], NULL};
    struct rlimit limit;
    report("socket", socket(AF_UNIX, SOCK_STREAM, 0));
    report("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0}));
    report("ptrace", ptrace(PTRACE_PEEKDATA, getppid(), NULL, NULL) == -1 && errno == ENOSYS ? -1 : 0);
    report("write", open("/tmp/tessera-confined", O_WRONLY | O_CREAT, 0600));
    report("append", open("/dev/null", O_RDONLY | O_APPEND));
    report("temporary", open("/tmp", O_TMPFILE | O_RDWR, 0600));
    report("old write", syscall(SYS_open, "/dev/null", O_RDWR));
    report("memory file", memfd_create("x", 0));
    report("signal", kill(getppid(), 0));
    report("signal all", kill(-1, 0));
    report("thread signal", syscall(SYS_tgkill, getppid(), getppid(), 0));
    report("limits of another", prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit));
    report("terminal", ioctl(0, TIOCSTI, "x"));
    report("unlink", unlink("/tmp/tessera-confined"));
    report("privileges", prctl(PR_SET_DUMPABLE, 1));
    report("exec", execve("/bin/true", nothing, nothing));
    report("exec itself", execve(argv[0], own, nothing));
    report("other calls", syscall(SYS_getpid | 0x40000000));
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    report("fork", child);
    fprintf(stderr, "tried, uid %d, preloaded %s\n", (int)getuid(), getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "nothing");
}

/* As versions before 13.5 do: in JSON, a subroutine is a function of its own. */
static int list_parts(int as_json)
{
    const char *text = "        .section  .text.k,\"ax\"\n"
                       "        /*0000*/   CALL.REL.NOINC `(.L_x_1) ;\n"
                       "        /*0010*/   EXIT ;\n"
                       ".L_x_1:\n"
                       "        /*0020*/   @P0 RET.REL.NODEC R2 ;\n";
    const char *json = "[{}, [{\"function-name\": \"k\", \"start\": 0, \"length\": 32, \"sass-instructions\": ["
                       "{\"opcode\": \"CALL.REL.NOINC\", \"operands\": \"0x20\"}, {\"opcode\": \"EXIT\"}]},"
                       "{\"function-name\": \"part\", \"start\": 32, \"length\": 16, \"sass-instructions\": ["
                       "{\"predicate\": \"@P0\", \"opcode\": \"RET.REL.NODEC\", \"operands\": \"R2\"}]}]]";
    return fputs(as_json ? json : text, stdout) < 0;
}

int main(int argc, char **argv)
{
    char word[16] = "";
    int file = open(argv[argc - 1], O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, word, sizeof word - 1) < 0)
        return 2;
    if (strcmp(word, "try") == 0)
        try_all(argv);
    else if (strcmp(word, "memory") == 0) {
        size_t taken = 0;
        while (taken < (size_t)64 << 30 && malloc((size_t)64 << 20))
            taken += (size_t)64 << 20;
        fprintf(stderr, "%zu MiB\n", taken >> 20);
    } else if (strcmp(word, "output") == 0) {
        static char zeros[1 << 20];
        for (;;)
            if (write(1, zeros, sizeof zeros) < 0)
                return 4;
    } else if (strcmp(word, "time") == 0) {
        for (volatile unsigned long i = 0;; i++)
            ;
    } else if (strcmp(word, "wait") == 0) {
        static int never;
        syscall(SYS_futex, &never, 0, 0, NULL, NULL, 0);
    } else if (strcmp(word, "abort") == 0)
        abort();
    else if (strcmp(word, "parts") == 0)
        return list_parts(argc > 1 && strcmp(argv[1], "-json") == 0);
    else if (strcmp(word, "crash") == 0)
        raise(SIGSEGV);
    return 3;
}
