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
static uint32_t numbers[MOST]; /* by device; written once, before cuInit returns */
static CUdevice devices[MOST]; /* by number, -1: hidden; the same */
static uint32_t count;         /* the same; 0: both numbers are the same */

/* Gives the device all places in the list that have its address; entries are separated by commas. The first; MOST: there is none. */
static uint32_t take_places(CUdevice device, const char *address, const char *list)
{
    uint32_t first = MOST;
    for (uint32_t place = 0; *list && place < MOST; place++) {
        size_t length = strcspn(list, ",");
        if (length == strlen(address) && strncasecmp(list, address, length) == 0) {
            devices[place] = device;
            first = first == MOST ? place : first;
        }
        list += length + (list[length] == ',');
    }
    return first;
}

/* 0: some GPU is not in the list. */
static uint32_t read_numbers(const char *list)
{
    int found = 0;
    if (tsr_real.cuDeviceGetCount(&found) != CUDA_SUCCESS || found <= 0 || found > (int)MOST)
        return 0;
    for (uint32_t gpu = 0; gpu < MOST; gpu++)
        devices[gpu] = -1;
    for (int i = 0; i < found; i++) {
        char address[64] = "";
        CUdevice device;
        if (tsr_real.cuDeviceGet(&device, i) != CUDA_SUCCESS ||
            tsr_real.cuDeviceGetPCIBusId(address, sizeof address, device) != CUDA_SUCCESS ||
            (numbers[i] = take_places(device, address, list)) == MOST) {
            tsr_warn("GPU %d (%s) is none of those that tessera-run found; GPUs have the numbers that this process gives them",
                     i, address);
            return 0;
        }
    }
    return (uint32_t)found;
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
    if (gpu >= MOST)
        return -1;
    return count ? devices[gpu] : (CUdevice)gpu;
}
