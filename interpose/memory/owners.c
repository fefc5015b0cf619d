/* See owners.h. */
#include "memory/owners.h"

#include <string.h>
#include <sys/mman.h>

#include <tessera/lane.h>

#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "memory/pairs.h"
#include "object/session.h"

#define PAGE (2ull << 20) /* of physical memory */
#define MOST_GPUS 16u
#define SPARE_PART 64u /* of a GPU, 1/n: no copies there, its driver may need it */
#define MOST_SPARE_BYTES (256ull << 20)

bool tsr_owners_host;  /* atomic; memory lock to change */
bool tsr_owners_begun; /* atomic; memory lock to change */
uint64_t tsr_owners_changes;
static uint64_t times_passed;   /* atomic; how often memory was given another owner */
uint64_t tsr_owners_away_bytes; /* atomic; memory lock to change */

static struct {
    bool asked, on;
    uint32_t count, now; /* GPUs; the one that is being filled */
    bool host_warned, host_held_back;
    uint64_t device_bytes[MOST_GPUS], pool_bytes[MOST_GPUS], owned_bytes[MOST_GPUS];
} owners; /* memory lock */

#define PIECE_PART 16u /* of the reserve, 1/n: the host's pieces are no larger, so that a GPU has copies of several */
#define MOST_PIECE_BYTES (64ull << 20)

static uint64_t piece_bytes; /* memory lock; the most that the host owns in one piece */

static uint8_t *mapped_pages; /* atomic; by page of the program's reservations (tessera/lane.h): 1 + rank; NULL: none yet */

bool tsr_owners_are_wanted(void)
{
    const struct tsr_session *session = tsr_session();
    return session && (session->lane_count || session->policy->memory_host_bytes) && session->policy->memory_pool;
}

static void look_at(uint32_t rank)
{
    struct tsr_policy *policy = tsr_session()->policy;
    uint32_t gpu = tsr_session_gpu(tsr_session(), rank);
    CUdevice device = tsr_gpu_device(gpu);
    size_t bytes = 0;
    bool hidden = device < 0 || tsr_real.cuDeviceTotalMem_v2(&bytes, device) != CUDA_SUCCESS;
    if (tsr_options()->split)
        bytes /= tsr_options()->split;
    if (hidden)
        tsr_warn("CUDA_VISIBLE_DEVICES hides GPU %u from the program: its memory is not in the pool", gpu);
    else if (bytes <= policy->memory_reserve_bytes)
        tsr_warn("GPU %u has less memory than the pool's reserve: it is not in the pool", gpu);
    if (policy->memory_gpu_limit_bytes && bytes > policy->memory_gpu_limit_bytes)
        bytes = policy->memory_gpu_limit_bytes;
    uint64_t pool = bytes > policy->memory_reserve_bytes ? bytes - policy->memory_reserve_bytes : 0;
    owners.device_bytes[rank] = bytes;
    owners.pool_bytes[rank] = pool / PAGE * PAGE;
    __atomic_store_n(&policy->pool_bytes[gpu % TSR_GPUS], owners.pool_bytes[rank], __ATOMIC_RELAXED);
}

/* Whether the home GPU's driver has host memory that can be mapped as a GPU's. */
static bool is_host_possible(void)
{
    int can = 0;
    CUdevice_attribute attribute = CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return tsr_real.cuDeviceGetAttribute(&can, attribute, tsr_session()->home) == CUDA_SUCCESS && can;
}

static void look_at_host(void)
{
    struct tsr_policy *policy = tsr_session()->policy;
    uint32_t host = tsr_session_host(tsr_session());
    if (!policy->memory_host_bytes)
        return;
    if (host >= MOST_GPUS || !is_host_possible()) {
        tsr_owners_host_refused(host >= MOST_GPUS ? 0 : CUDA_ERROR_NOT_SUPPORTED);
        return;
    }
    uint64_t piece = policy->memory_reserve_bytes / PIECE_PART / PAGE * PAGE;
    piece_bytes = piece < PAGE ? PAGE : piece > MOST_PIECE_BYTES ? MOST_PIECE_BYTES : piece;
    owners.pool_bytes[host] = policy->memory_host_bytes / PAGE * PAGE;
    __atomic_store_n(&policy->host.bytes, owners.pool_bytes[host], __ATOMIC_RELAXED);
    __atomic_store_n(&tsr_owners_host, true, __ATOMIC_RELAXED);
}

/* What it owns already stays. */
void tsr_owners_host_refused(int error)
{
    uint32_t host = tsr_session_host(tsr_session());
    tsr_error("the pool has no host memory, or no more: the driver refuses it (error %d); what fits no GPU is refused", error);
    __atomic_fetch_add(&tsr_session()->policy->host.refused, 1, __ATOMIC_RELAXED);
    if (host < MOST_GPUS)
        owners.pool_bytes[host] = owners.owned_bytes[host];
    __atomic_store_n(&tsr_session()->policy->host.bytes, host < MOST_GPUS ? owners.owned_bytes[host] : 0, __ATOMIC_RELAXED);
}

bool tsr_owners_are_on(void)
{
    if (owners.asked || !tsr_owners_are_wanted())
        return owners.on;
    owners.asked = true;
    owners.on = tsr_pairs_are_all_direct();
    owners.count = tsr_session()->lane_count + 1;
    if (!owners.on)
        tsr_warn("not all GPUs can access each other's memory: there is no pool, and the program has its own GPU's memory");
    for (uint32_t rank = 0; rank < owners.count && owners.on; rank++)
        look_at(rank);
    if (owners.on)
        look_at_host();
    __atomic_store_n(&tsr_owners_begun, owners.on, __ATOMIC_RELAXED);
    return owners.on;
}

void tsr_owners_forget(void)
{
    owners.asked = owners.on = owners.host_warned = owners.host_held_back = tsr_owners_begun = tsr_owners_host = false;
    for (uint32_t rank = 0; rank < MOST_GPUS; rank++)
        owners.pool_bytes[rank] = owners.owned_bytes[rank] = 0;
    owners.now = 0;
    if (mapped_pages)
        memset(mapped_pages, 0, TSR_RESERVE_BYTES / PAGE);
    tsr_owners_away_bytes = 0;
}

static uint64_t free_on(uint32_t rank)
{
    return owners.pool_bytes[rank] > owners.owned_bytes[rank] ? owners.pool_bytes[rank] - owners.owned_bytes[rank] : 0;
}

void tsr_owners_hold_host_back(bool held_back)
{
    owners.host_held_back = held_back;
}

static bool may_use_host(void)
{
    return tsr_owners_host && !owners.host_held_back;
}

uint32_t tsr_owners_next(uint64_t bytes, uint32_t but)
{
    uint32_t host = tsr_session_host(tsr_session());
    for (uint32_t i = 0; i < owners.count; i++) {
        uint32_t rank = (owners.now + i) % owners.count;
        if (!(but >> rank & 1) && free_on(rank) >= bytes)
            return rank;
    }
    return may_use_host() && !(but >> host & 1) && free_on(host) >= bytes ? host : TSR_OWNERS_NONE;
}

uint32_t tsr_owners_too_small(uint64_t bytes)
{
    return tsr_owners_host && bytes > piece_bytes ? 1u << tsr_session_host(tsr_session()) : 0;
}

uint64_t tsr_owners_most(void)
{
    uint32_t host = tsr_session_host(tsr_session());
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < owners.count; rank++)
        if (free_on(rank) > most)
            most = free_on(rank);
    if (most < PAGE && may_use_host())
        most = free_on(host) < piece_bytes ? free_on(host) : piece_bytes;
    return most / PAGE * PAGE;
}

static bool is_host(uint32_t rank)
{
    return rank == tsr_session_host(tsr_session());
}

/* In the policy: what it owns now, and at most. */
static uint64_t *told_of(uint32_t rank, uint64_t **most)
{
    struct tsr_policy *policy = tsr_session()->policy;
    uint32_t gpu = tsr_session_gpu(tsr_session(), rank) % TSR_GPUS;
    *most = is_host(rank) ? &policy->host.most_owned_bytes : &policy->most_owned_bytes[gpu];
    return is_host(rank) ? &policy->host.owned_bytes : &policy->owned_bytes[gpu];
}

static void tell(uint32_t rank)
{
    uint64_t *most;
    told_of(rank, &most);
    if (owners.owned_bytes[rank] > __atomic_load_n(most, __ATOMIC_RELAXED))
        __atomic_store_n(most, owners.owned_bytes[rank], __ATOMIC_RELAXED);
}

static void count(uint32_t rank, uint64_t more)
{
    uint64_t *most;
    owners.owned_bytes[rank] += more;
    __atomic_fetch_add(told_of(rank, &most), more, __ATOMIC_RELAXED);
    if (rank)
        __atomic_fetch_add(&tsr_owners_away_bytes, more, __ATOMIC_RELAXED);
}

void tsr_owners_add(uint32_t rank, uint64_t bytes)
{
    if (!is_host(rank))
        owners.now = rank;
    else if (!owners.host_warned)
        tsr_warn(
            "the GPUs' memory is full: from here on memory of the program lies on the host, and GPUs copy what they use of "
            "it over PCIe, about a hundred times slower than they read their own");
    owners.host_warned |= is_host(rank);
    __atomic_fetch_add(&tsr_owners_changes, bytes > PAGE, __ATOMIC_RELAXED);
    count(rank, bytes);
    tell(rank);
}

void tsr_owners_pass(uint32_t from, uint32_t to, uint64_t bytes)
{
    count(from, -bytes);
    count(to, bytes);
    tell(to);
    __atomic_fetch_add(&times_passed, 1, __ATOMIC_RELAXED);
}

uint64_t tsr_owners_changed(void)
{
    return __atomic_load_n(&tsr_owners_changes, __ATOMIC_RELAXED) + __atomic_load_n(&times_passed, __ATOMIC_RELAXED);
}

uint64_t tsr_owners_free(uint32_t rank)
{
    return free_on(rank);
}

double tsr_owners_share(uint32_t rank)
{
    double upto = 0, all = 0;
    for (uint32_t other = 0; other < owners.count; other++) {
        all += (double)owners.pool_bytes[other];
        upto += other <= rank ? (double)owners.pool_bytes[other] : 0;
    }
    return all > 0 ? upto / all : 1;
}

void tsr_owners_remove(uint32_t rank, uint64_t bytes)
{
    count(rank, -bytes);
}

uint64_t tsr_owners_owned(uint32_t rank)
{
    return owners.owned_bytes[rank];
}

bool tsr_owners_have_room(uint32_t rank, uint64_t bytes, uint64_t copies_bytes, uint64_t most)
{
    uint64_t spare = owners.device_bytes[rank] / SPARE_PART;
    uint64_t taken = owners.owned_bytes[rank] + copies_bytes + (spare < MOST_SPARE_BYTES ? spare : MOST_SPARE_BYTES);
    most = owners.device_bytes[rank] < most ? owners.device_bytes[rank] : most;
    return taken <= most && most - taken >= bytes;
}

void tsr_owners_refused(void)
{
    if (owners.on)
        __atomic_fetch_add(&tsr_session()->policy->pool_refused, 1, __ATOMIC_RELAXED);
}

void tsr_owners_mark(uint64_t address, uint64_t bytes, uint32_t rank)
{
    uint8_t *pages = __atomic_load_n(&mapped_pages, __ATOMIC_ACQUIRE);
    if (!owners.on || address - TSR_RESERVE_ADDRESS >= TSR_RESERVE_BYTES || (!pages && rank == TSR_OWNERS_NONE))
        return;
    if (!pages && !(pages = tsr_os_map(NULL, TSR_RESERVE_BYTES / PAGE, PROT_READ | PROT_WRITE, -1, 0)))
        return;
    for (uint64_t at = address; at < address + bytes; at += PAGE)
        __atomic_store_n(&pages[(at - TSR_RESERVE_ADDRESS) / PAGE], (uint8_t)(rank + 1), __ATOMIC_RELAXED);
    __atomic_store_n(&mapped_pages, pages, __ATOMIC_RELEASE);
}

void tsr_owners_look(uint64_t first, uint64_t end, uint64_t *bytes)
{
    const uint8_t *pages = __atomic_load_n(&mapped_pages, __ATOMIC_ACQUIRE);
    for (uint64_t at = first, next; pages && at < end && at - TSR_RESERVE_ADDRESS < TSR_RESERVE_BYTES; at = next) {
        uint8_t found = __atomic_load_n(&pages[(at - TSR_RESERVE_ADDRESS) / PAGE], __ATOMIC_RELAXED);
        next = at / PAGE * PAGE + PAGE;
        if (found)
            bytes[found - 1] += (next < end ? next : end) - at;
    }
}

bool tsr_owners_is_any(uint64_t address)
{
    uint64_t owned[MOST_GPUS] = {0};
    tsr_owners_look(address, address + 1, owned);
    for (uint32_t rank = 0; rank < MOST_GPUS; rank++)
        if (owned[rank])
            return true;
    return false;
}

struct tsr_owners_room tsr_owners_room(void)
{
    struct tsr_owners_room room = {.home = free_on(0)};
    for (uint32_t rank = 0; rank < owners.count; rank++) {
        room.total += owners.pool_bytes[rank];
        room.free += free_on(rank);
    }
    if (may_use_host()) {
        room.total += owners.pool_bytes[tsr_session_host(tsr_session())];
        room.free += free_on(tsr_session_host(tsr_session()));
    }
    return room;
}
