#include "event_share.h"

#include "base/format.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARE_MAGIC 0x544e5645u
#define SHARE_BYTES 4096u
#define ALIVE_CHECK_NS 50000000u

struct page { /* every field is accessed atomically */
    uint32_t magic;
    uint32_t completions;  /* futex: counts changes of completed */
    uint64_t submitted;    /* count of records submitted */
    uint64_t completed;    /* highest count that has come to pass */
    uint64_t completed_ns; /* its virtual time; written before completed */
    int32_t recorder;      /* process of the last submitted record */
};

struct tsr_event_share {
    struct page *page;
    int descriptor; /* -1 when imported */
};

struct wire { /* within CUipcEventHandle */
    uint32_t magic;
    int32_t process, descriptor;
    uint32_t unused;
    uint64_t device, inode;
};
_Static_assert(sizeof(struct wire) <= sizeof(CUipcEventHandle), "the handle holds what identifies the page");

static struct tsr_event_share *share_from(int descriptor, bool owned)
{
    struct tsr_event_share *share = malloc(sizeof *share);
    void *page = share ? tsr_os_map(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, descriptor, 0) : NULL;
    if (!page) {
        free(share);
        return NULL;
    }
    share->page = page;
    share->descriptor = owned ? descriptor : -1;
    return share;
}

struct tsr_event_share *tsr_event_share_create(void)
{
    int descriptor = tsr_os_memfd("tessera-event", SHARE_BYTES);
    if (descriptor < 0)
        return NULL;
    struct tsr_event_share *share = share_from(descriptor, true);
    if (!share) {
        close(descriptor);
        return NULL;
    }
    __atomic_store_n(&share->page->magic, SHARE_MAGIC, __ATOMIC_RELEASE);
    return share;
}

void tsr_event_share_put(struct tsr_event_share *share)
{
    if (!share)
        return;
    tsr_os_unmap(share->page, SHARE_BYTES);
    if (share->descriptor >= 0)
        close(share->descriptor);
    free(share);
}

void tsr_event_share_export(const struct tsr_event_share *share, CUipcEventHandle *out)
{
    struct stat file;
    struct wire wire = {.magic = SHARE_MAGIC, .process = getpid(), .descriptor = share->descriptor};
    if (fstat(share->descriptor, &file) == 0) {
        wire.device = file.st_dev;
        wire.inode = file.st_ino;
    }
    memset(out, 0, sizeof *out);
    memcpy(out, &wire, sizeof wire);
}

CUresult tsr_event_share_import(const CUipcEventHandle *handle, struct tsr_event_share **out)
{
    struct wire wire;
    char path[64];
    struct stat file;
    memcpy(&wire, handle, sizeof wire);
    if (wire.magic != SHARE_MAGIC || wire.process <= 0 || wire.descriptor < 0)
        return CUDA_ERROR_INVALID_VALUE;
    tsr_format(path, sizeof path, "/proc/%d/fd/%d", wire.process, wire.descriptor);
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return errno == EACCES || errno == EPERM ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
    struct tsr_event_share *share = NULL;
    bool same = fstat(descriptor, &file) == 0 && file.st_dev == wire.device && file.st_ino == wire.inode;
    if (same)
        share = share_from(descriptor, false);
    close(descriptor);
    if (!share)
        return same ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    *out = share;
    return CUDA_SUCCESS;
}

uint64_t tsr_event_share_submitted(struct tsr_event_share *share)
{
    __atomic_store_n(&share->page->recorder, getpid(), __ATOMIC_RELAXED);
    return __atomic_add_fetch(&share->page->submitted, 1, __ATOMIC_ACQ_REL);
}

void tsr_event_share_completed(struct tsr_event_share *share, uint64_t count, uint64_t ns)
{
    struct page *page = share->page;
    if (__atomic_load_n(&page->completed, __ATOMIC_ACQUIRE) >= count)
        return;
    __atomic_store_n(&page->completed_ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(&page->completed, count, __ATOMIC_RELEASE);
    __atomic_fetch_add(&page->completions, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&page->completions, UINT32_MAX, true);
}

uint64_t tsr_event_share_latest(const struct tsr_event_share *share)
{
    return __atomic_load_n(&share->page->submitted, __ATOMIC_ACQUIRE);
}

bool tsr_event_share_done(const struct tsr_event_share *share, uint64_t count, uint64_t *ns)
{
    struct page *page = share->page;
    *ns = 0;
    if (__atomic_load_n(&page->completed, __ATOMIC_ACQUIRE) >= count) {
        *ns = __atomic_load_n(&page->completed_ns, __ATOMIC_RELAXED);
        return true;
    }
    int32_t recorder = __atomic_load_n(&page->recorder, __ATOMIC_RELAXED);
    return recorder > 0 && kill(recorder, 0) != 0 && errno == ESRCH;
}

void tsr_event_share_wait(const struct tsr_event_share *share, uint64_t count)
{
    uint64_t ns;
    for (;;) {
        uint32_t completions = __atomic_load_n(&share->page->completions, __ATOMIC_ACQUIRE);
        if (tsr_event_share_done(share, count, &ns))
            return;
        tsr_os_futex_wait(&share->page->completions, completions, ALIVE_CHECK_NS, true);
    }
}
