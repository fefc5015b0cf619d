/*
 * A process of the same program that is lent memory: it opens what it is told by its handle (cuIpcGetMemHandle), changes it by a kernel, by
 * copies or not at all, and answers with a digest of what it found there. One for all programs, started by the first that lends.
 */
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"
#include "program.h"

#define MOST_WORDS 2048u
#define LONGEST_START_S 60

enum way { BY_KERNEL, BY_COPIES, READ_ONLY, WAYS };

struct lent {
    CUipcMemHandle handle;
    uint64_t offset;
    uint32_t words, salt;
    enum way way;
};

struct answer {
    CUresult result;
    uint64_t digest;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static int to_partner = -1;
static pid_t partner;

static bool exchange(int socket, const void *to, size_t to_bytes, void *from, size_t from_bytes)
{
    return send(socket, to, to_bytes, MSG_NOSIGNAL) == (ssize_t)to_bytes &&
           recv(socket, from, from_bytes, MSG_WAITALL) == (ssize_t)from_bytes;
}

static bool await_start(int socket)
{
    struct timeval longest = {.tv_sec = LONGEST_START_S};
    char byte;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    bool started = recv(socket, &byte, 1, 0) == 1;
    longest.tv_sec = 0;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    return started;
}

static bool start_locked(void)
{
    extern char **environ;
    int ends[2];
    posix_spawn_file_actions_t actions;
    char *const arguments[] = {"random_programs", "--partner", NULL};
    if (to_partner >= 0)
        return true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    unsigned patience = alarm(0); /* its executors start, too, which no program is to be blamed for */
    bool started = posix_spawn(&partner, "/proc/self/exe", &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    started = started && await_start(ends[0]);
    alarm(patience);
    if (!started)
        close(ends[0]);
    to_partner = started ? ends[0] : -1;
    return started;
}

void partner_end(void)
{
    if (to_partner < 0)
        return;
    close(to_partner);
    waitpid(partner, NULL, 0);
}

/* Another process has it for a while. */
void op_lend(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, FOR_KERNELS, NULL);
    struct lent lent = {.salt = draw(from, 1u << 30), .way = draw(from, WAYS)};
    struct answer answer = {.result = CUDA_ERROR_SYSTEM_NOT_READY};
    if (!slot || !uses(worker->program, FEATURE_ipc) || !is_allocation(slot))
        return;
    say(worker, "lend: slot %u, %s", slot_number(worker, slot),
        (const char *[]){"changed by a kernel", "changed by copies", "read"}[lent.way]);
    host_wait(worker, &slot->sync, lent.way != READ_ONLY, from);
    lent.offset = slot->offset;
    lent.words = slot->words;
    if (!CU(cuIpcGetMemHandle(&lent.handle, slot->base)))
        return;
    pthread_mutex_lock(&lock);
    if (start_locked() && !exchange(to_partner, &lent, sizeof lent, &answer, sizeof answer))
        answer.result = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    pthread_mutex_unlock(&lock);
    if (succeeded(worker, answer.result, "in the other process"))
        worker->digest = scramble(worker->digest + answer.digest);
}

/* The other side: */

static CUfunction mix;

static CUresult change(CUdeviceptr at, const struct lent *lent, uint32_t *words)
{
    uint32_t count = lent->words, salt = lent->salt, spin = 0;
    void *parameters[] = {&at, &at, &count, &salt, &spin};
    if (lent->way == READ_ONLY)
        return CUDA_SUCCESS;
    if (lent->way == BY_KERNEL) { /* one word: threads of the kernel would read what others write */
        count = 1;
        return cuLaunchKernel(mix, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
    }
    for (uint32_t i = 0; i < count; i++)
        words[i] = words[i] * 5 + salt + i;
    return cuMemcpyHtoD(at, words, 4ul * count);
}

static CUresult use(const struct lent *lent, uint64_t *digest)
{
    static uint32_t words[MOST_WORDS];
    CUdeviceptr base;
    CUresult result = cuIpcOpenMemHandle(&base, lent->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuMemcpyDtoH(words, base + lent->offset, 4ul * lent->words);
    *digest = digest_bytes(1, words, 4ul * lent->words);
    if (result == CUDA_SUCCESS)
        result = change(base + lent->offset, lent, words);
    if (result == CUDA_SUCCESS)
        result = cuCtxSynchronize();
    CUresult closed = cuIpcCloseMemHandle(base);
    return result == CUDA_SUCCESS ? closed : result;
}

int partner_main(void)
{
    CUcontext context;
    CUmodule module;
    struct lent lent;
    CUresult begun = cuInit(0);
    if (begun == CUDA_SUCCESS)
        begun = cuDevicePrimaryCtxRetain(&context, 0);
    if (begun == CUDA_SUCCESS)
        begun = cuCtxSetCurrent(context);
    if (begun == CUDA_SUCCESS)
        begun = cuModuleLoadData(&module, plain_ptx);
    if (begun == CUDA_SUCCESS)
        begun = cuModuleGetFunction(&mix, module, "mix_a");
    if (send(0, "", 1, MSG_NOSIGNAL) != 1)
        return 1;
    while (recv(0, &lent, sizeof lent, MSG_WAITALL) == (ssize_t)sizeof lent) {
        struct answer answer = {.result = begun};
        if (begun == CUDA_SUCCESS)
            answer.result = use(&lent, &answer.digest);
        if (send(0, &answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer)
            return 1;
    }
    return 0;
}
