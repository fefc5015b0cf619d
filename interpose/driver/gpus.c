/* See gpus.h. */
#include "driver/gpus.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/options.h"
#include "driver/real.h"

#define MOST 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;            /* lock; of the process that the numbers are of */
static uint32_t numbers[MOST]; /* written once, before cuInit returns */
static uint32_t count;         /* the same; 0: both numbers are the same */

/* Place in the list, whose entries are separated by commas; MOST: it is not there. */
static uint32_t place_of(const char *address, const char *list)
{
    for (uint32_t place = 0; *list && place < MOST; place++) {
        size_t length = strcspn(list, ",");
        if (length == strlen(address) && strncasecmp(list, address, length) == 0)
            return place;
        list += length + (list[length] == ',');
    }
    return MOST;
}

/* 0: some GPU is not in the list. */
static uint32_t read_numbers(const char *list)
{
    int devices = 0;
    if (tsr_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices <= 0 || devices > (int)MOST)
        return 0;
    for (int i = 0; i < devices; i++) {
        char address[64] = "";
        CUdevice device;
        if (tsr_real.cuDeviceGet(&device, i) != CUDA_SUCCESS ||
            tsr_real.cuDeviceGetPCIBusId(address, sizeof address, device) != CUDA_SUCCESS ||
            (numbers[i] = place_of(address, list)) == MOST) {
            tsr_warn("GPU %d (%s) is none of those that tessera-run found; GPUs have the numbers that this process gives them",
                     i, address);
            return 0;
        }
    }
    return (uint32_t)devices;
}

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

void tsr_gpus_start(void)
{
    tsr_fork_listen(&forks);
    const char *list = tsr_options()->gpus;
    pthread_mutex_lock(&lock);
    if (owner != getpid()) {
        owner = getpid();
        count = list[0] ? read_numbers(list) : 0;
    }
    pthread_mutex_unlock(&lock);
}

uint32_t tsr_gpu_of(CUdevice device)
{
    if (device < 0)
        return TSR_GPU_UNKNOWN;
    if (!count)
        return (uint32_t)device;
    return (uint32_t)device < count ? numbers[device] : TSR_GPU_UNKNOWN;
}

CUdevice tsr_gpu_device(uint32_t gpu)
{
    if (!count)
        return gpu < MOST ? (CUdevice)gpu : -1;
    for (uint32_t device = 0; device < count; device++)
        if (numbers[device] == gpu)
            return (CUdevice)device;
    return -1;
}
