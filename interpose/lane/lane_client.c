/* See lane_client.h. */
#include "lane/lane_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "base/socket.h"
#include "lane/lane_object.h"
#include "lane/failover.h"
#include "lane/watch.h"

#define ANSWER_POLL_MS 50 /* between polls whether it has been given up */
#define CONNECT_TIMEOUT_NS 5000000000ull
#define SPINS_BEFORE_PAUSE 2000
#define PAUSE_NS 50000ull

_Static_assert(sizeof(struct tsr_lane) <= TSR_LANE_SPACING, "lanes do not overlap");
_Static_assert(offsetof(struct tsr_lane, rings) == TSR_LANE_FRONT_BYTES, "all that GPUs see lies before the rings");
_Static_assert(offsetof(struct tsr_lane_ring, records) == 256, "tests/security/test_hostile_guests.py counts on it");
_Static_assert(offsetof(struct tsr_lane, sleeping) == 128, "scripts/lab shared-lines counts on it");

/* Somebody listens from before the application begins: who is refused comes too late, and only a full queue is worth waiting for. */
static struct tsr_os_file connect_within(const char *path, uint64_t ns)
{
    uint64_t deadline = tsr_os_monotonic_ns() + ns;
    int descriptor;
    while ((descriptor = tsr_socket_connect(path, SOCK_NONBLOCK)) < 0 && errno == EAGAIN && tsr_os_monotonic_ns() < deadline)
        poll(NULL, 0, 5);
    if (descriptor < 0)
        return (struct tsr_os_file){.descriptor = -1};
    fcntl(descriptor, F_SETFL, 0);
    return tsr_os_file_keep(descriptor);
}

static bool send_message(int to, const struct tsr_message *message, int descriptor)
{
    size_t bytes = offsetof(struct tsr_message, text) + strlen(message->text) + 1;
    return tsr_socket_send(to, message, bytes, descriptor, 0) == (ssize_t)bytes;
}

/* Until there is an answer, the executor has ended, or it has been declared lost. */
static bool receive_reply(struct tsr_lane_client *lane, struct tsr_reply *reply)
{
    struct pollfd wait = {.fd = lane->socket.descriptor, .events = POLLIN};
    while (!tsr_lane_is_lost(lane)) {
        int ready = poll(&wait, 1, ANSWER_POLL_MS);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0)
            return recv(lane->socket.descriptor, reply, sizeof *reply, 0) == (ssize_t)sizeof *reply;
    }
    return false;
}

static CUresult ask(struct tsr_lane_client *lane, struct tsr_message *message, int descriptor, struct tsr_reply *reply)
{
    *reply = (struct tsr_reply){.result = CUDA_SUCCESS};
    message->version = TSR_LANE_VERSION;
    pthread_mutex_lock(&lane->ask_lock);
    __atomic_store_n(&lane->asking, 1, __ATOMIC_RELEASE);
    bool answered = !tsr_lane_is_lost(lane) && tsr_os_file_is_ours(&lane->socket) &&
                    send_message(lane->socket.descriptor, message, descriptor) && receive_reply(lane, reply);
    __atomic_store_n(&lane->asking, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lane->ask_lock);
    if (answered)
        return (CUresult)reply->result;
    __atomic_store_n(&lane->broken, 1, __ATOMIC_SEQ_CST);
    if (message->kind == TSR_MESSAGE_UNLOAD || message->kind == TSR_MESSAGE_ATTRIBUTE)
        tsr_failover_await(lane);
    return tsr_lane_state(lane);
}

CUresult tsr_lane_ask(struct tsr_lane_client *lane, struct tsr_message *message, int descriptor)
{
    struct tsr_reply reply;
    return ask(lane, message, descriptor, &reply);
}

CUresult tsr_lane_inquire(struct tsr_lane_client *lane, struct tsr_message *message, struct tsr_reply *reply)
{
    return ask(lane, message, -1, reply);
}

struct tsr_lane_client *tsr_lane_client_create(const char *socket_path, uint32_t number)
{
    struct tsr_lane_client *client = aligned_alloc(_Alignof(struct tsr_lane_client), sizeof *client);
    int memory = tsr_os_memfd("tessera-lane", TSR_LANE_SPACING);
    if (!client || memory < 0 || !tsr_os_seal(memory, F_SEAL_SHRINK | F_SEAL_GROW))
        goto drop_memory;
    *client = (struct tsr_lane_client){.number = number, .socket.descriptor = -1, .memory = -1};
    pthread_mutex_init(&client->ask_lock, NULL);
    pthread_mutex_init(&client->fence_lock, NULL);
    client->lane =
        tsr_os_map((void *)(TSR_LANE_ADDRESS + number * TSR_LANE_SPACING), TSR_LANE_SPACING, PROT_READ | PROT_WRITE, memory, 0);
    if (!client->lane)
        goto drop_memory;
    client->lane->version = TSR_LANE_VERSION;
    client->socket = connect_within(socket_path, CONNECT_TIMEOUT_NS);
    if (client->socket.descriptor < 0)
        goto unmap_lane;
    struct tsr_message hello = {
        .kind = TSR_MESSAGE_HELLO, .address = (uint64_t)(uintptr_t)client->lane, .bytes = TSR_LANE_SPACING};
    struct tsr_reply reply;
    tsr_watch_start(client);
    if (ask(client, &hello, memory, &reply) != CUDA_SUCCESS || tsr_lane_is_lost(client))
        goto stop_watching;
    __atomic_store_n(&client->process, reply.flags, __ATOMIC_RELEASE);
    client->memory = memory;
    return client;

stop_watching:
    tsr_watch_stop(client);
    tsr_os_file_close(&client->socket);
unmap_lane:
    tsr_os_unmap(client->lane, TSR_LANE_SPACING);
drop_memory:
    if (memory >= 0)
        close(memory);
    free(client);
    return NULL;
}

static CUresult introduce(struct tsr_lane_client *to, const struct tsr_lane_client *other)
{
    struct tsr_message message = {
        .kind = TSR_MESSAGE_LANE, .address = (uint64_t)(uintptr_t)other->lane, .bytes = TSR_LANE_FRONT_BYTES};
    return to == other ? CUDA_SUCCESS : tsr_lane_ask(to, &message, other->memory);
}

CUresult tsr_lane_introduce(struct tsr_lane_client *const *lanes, uint32_t count, bool tell)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t other = 0; tell && other < count && result == CUDA_SUCCESS; other++)
            result = introduce(lanes[other], lanes[i]);
        close(lanes[i]->memory);
        lanes[i]->memory = -1;
    }
    return result;
}

struct tsr_lane_time *tsr_lane_times(const struct tsr_lane_client *lane)
{
    return lane->lane->times;
}

uint32_t tsr_lane_number(const struct tsr_lane_client *lane)
{
    return lane->number;
}

CUresult tsr_lane_state(const struct tsr_lane_client *lane)
{
    bool pardoned = __atomic_load_n(&lane->pardoned, __ATOMIC_ACQUIRE);
    return pardoned ? CUDA_SUCCESS : (CUresult)__atomic_load_n(&lane->lane->dead, __ATOMIC_ACQUIRE);
}

void tsr_lane_pardon(struct tsr_lane_client *lane)
{
    __atomic_store_n(&lane->decided, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&lane->lost, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&lane->pardoned, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&lane->lane->closed, TSR_LANE_PARDONED, __ATOMIC_SEQ_CST);
    if (tsr_os_file_is_ours(&lane->socket))
        shutdown(lane->socket.descriptor,
                 SHUT_RDWR); /* the executor's process may serve another application with a context of its own */
    tsr_warn("executor %u failed with work of contexts that have ended; what was to run there runs at home", lane->number);
}

bool tsr_lane_is_lost(const struct tsr_lane_client *lane)
{
    return __atomic_load_n(&lane->lost, __ATOMIC_SEQ_CST) || __atomic_load_n(&lane->broken, __ATOMIC_SEQ_CST) ||
           tsr_lane_state(lane) != CUDA_SUCCESS;
}

bool tsr_lane_enter(struct tsr_lane_client *lane)
{
    __atomic_fetch_add(&lane->departing, 1, __ATOMIC_SEQ_CST);
    if (!tsr_lane_is_lost(lane) && tsr_watch_is_alive(lane))
        return true;
    tsr_lane_leave(lane);
    return false;
}

void tsr_lane_leave(struct tsr_lane_client *lane)
{
    __atomic_fetch_sub(&lane->departing, 1, __ATOMIC_SEQ_CST);
}

CUdeviceptr tsr_lane_home_fence(uint32_t stream, const struct tsr_lane_client *lane)
{
    return (CUdeviceptr)(uintptr_t)&lane->lane->home[stream];
}

CUdeviceptr tsr_lane_away_fence(uint32_t stream, const struct tsr_lane_client *lane)
{
    return (CUdeviceptr)(uintptr_t)&lane->lane->away[stream];
}

uint64_t tsr_lane_home_value(uint32_t stream, const struct tsr_lane_client *lane)
{
    return __atomic_load_n(&lane->lane->home[stream], __ATOMIC_ACQUIRE);
}

uint64_t tsr_lane_away_value(uint32_t stream, const struct tsr_lane_client *lane)
{
    return __atomic_load_n(&lane->lane->away[stream], __ATOMIC_ACQUIRE);
}

CUresult tsr_lane_await(const struct tsr_lane_client *lane, uint32_t stream, uint64_t value)
{
    for (unsigned i = 0; tsr_lane_away_value(stream, lane) < value; i++)
        if (i < SPINS_BEFORE_PAUSE)
            __builtin_ia32_pause();
        else
            tsr_os_futex_wait(&lane->lane->never, 0, PAUSE_NS, true);
    return tsr_lane_state(lane);
}
