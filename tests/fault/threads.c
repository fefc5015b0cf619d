/*
 * threads ROUNDS [SEED [SORTS]]: eight threads that each round get memory of a sort drawn from the seed, set it, have two launches add to
 * it in the thread's own stream, look at every word and give the memory back. SORTS: letters of sorts[], all by default. Says "right"
 * (exit 0), "error N" at a CUDA error (3), "WRONG" at a wrong word (4).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#define THREADS 8u
#define WORDS 512u
#define BYTES (WORDS * sizeof(uint32_t))
#define PAGE (2u << 20)

static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                          ".visible .entry add(.param .u64 to, .param .u32 step) {\n"
                          " .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
                          " ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [step];\n"
                          " mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;\n"
                          " ld.global.u32 %r3, [%rd3]; add.u32 %r3, %r3, %r1; st.global.u32 [%rd3], %r3; ret; }\n";

struct memory {
    CUdeviceptr address;
    void *host;
    CUmemGenericAllocationHandle handle;
    CUmemoryPool pool;
    CUmodule module;
};

struct thread {
    pthread_t id;
    uint64_t drawn;
    CUstream stream;
    CUfunction function;
    unsigned number;
};

static CUcontext context;
static CUfunction function;
static CUmemoryPool shareable;          /* all threads' */
static CUipcMemHandle offered[THREADS]; /* of another process' memory */
static unsigned rounds;
static const char *wanted = "mpsavrhio";

static void end(int status, const char *what, int number)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    printf(number ? "%s %d\n" : "%s\n", what, number);
    fflush(stdout);
    _Exit(status);
}

static void check(CUresult result)
{
    if (result != CUDA_SUCCESS)
        end(3, "error", result);
}

static void get_managed(struct thread *thread, struct memory *memory)
{
    (void)thread;
    check(cuMemAllocManaged(&memory->address, BYTES, CU_MEM_ATTACH_GLOBAL));
}

static void get_ordinary(struct thread *thread, struct memory *memory)
{
    check(cuMemAlloc(&memory->address, thread->drawn & 1 ? BYTES : 3 * PAGE));
}

static void give_ordinary(struct thread *thread, struct memory *memory)
{
    (void)thread;
    check(cuMemFree(memory->address));
}

static CUmemoryPool make_pool(CUmemAllocationHandleType types)
{
    CUmemoryPool pool;
    CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = types, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    check(cuMemPoolCreate(&pool, &properties));
    return pool;
}

/* Of a pool that may be shared with other processes: of all threads or the round's own. Or of one that may not. */
static void get_pooled(struct thread *thread, struct memory *memory)
{
    memory->pool = thread->drawn & 1
                       ? shareable
                       : make_pool(thread->drawn & 2 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE);
    check(cuMemAllocFromPoolAsync(&memory->address, BYTES, memory->pool, thread->stream));
}

static void give_pooled(struct thread *thread, struct memory *memory)
{
    check(cuMemFreeAsync(memory->address, thread->stream));
    check(cuStreamSynchronize(thread->stream));
    if (memory->pool != shareable)
        check(cuMemPoolDestroy(memory->pool));
}

static void get_in_stream(struct thread *thread, struct memory *memory)
{
    check(cuMemAllocAsync(&memory->address, BYTES, thread->stream));
}

static void give_in_stream(struct thread *thread, struct memory *memory)
{
    check(cuMemFreeAsync(memory->address, thread->stream));
}

static void get_mapped(struct thread *thread, struct memory *memory)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    (void)thread;
    check(cuMemAddressReserve(&memory->address, PAGE, 0, 0, 0));
    check(cuMemCreate(&memory->handle, PAGE, &properties, 0));
    check(cuMemMap(memory->address, PAGE, 0, memory->handle, 0));
    check(cuMemSetAccess(memory->address, PAGE, &access, 1));
}

static void give_mapped(struct thread *thread, struct memory *memory)
{
    (void)thread;
    check(cuMemUnmap(memory->address, PAGE));
    check(cuMemRelease(memory->handle));
    check(cuMemAddressFree(memory->address, PAGE));
}

static void get_registered(struct thread *thread, struct memory *memory)
{
    (void)thread;
    memory->host = aligned_alloc(4096, 4096);
    check(cuMemHostRegister(memory->host, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    check(cuMemHostGetDevicePointer(&memory->address, memory->host, 0));
}

static void give_registered(struct thread *thread, struct memory *memory)
{
    (void)thread;
    check(cuMemHostUnregister(memory->host));
    free(memory->host);
}

static void get_host(struct thread *thread, struct memory *memory)
{
    check(cuMemHostAlloc(&memory->host, BYTES, thread->drawn & 1 ? CU_MEMHOSTALLOC_DEVICEMAP : CU_MEMHOSTALLOC_PORTABLE));
    check(cuMemHostGetDevicePointer(&memory->address, memory->host, 0));
}

static void give_host(struct thread *thread, struct memory *memory)
{
    (void)thread;
    check(cuMemFreeHost(memory->host));
}

static void get_opened(struct thread *thread, struct memory *memory)
{
    check(cuIpcOpenMemHandle(&memory->address, offered[thread->number], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static void give_opened(struct thread *thread, struct memory *memory)
{
    (void)thread;
    check(cuIpcCloseMemHandle(memory->address));
}

/* Ordinary memory, and a module of the round's own. */
static void get_with_module(struct thread *thread, struct memory *memory)
{
    check(cuModuleLoadData(&memory->module, ptx));
    check(cuModuleGetFunction(&thread->function, memory->module, "add"));
    get_ordinary(thread, memory);
}

static void give_with_module(struct thread *thread, struct memory *memory)
{
    check(cuModuleUnload(memory->module));
    give_ordinary(thread, memory);
}

static const struct sort {
    char letter;
    void (*get)(struct thread *thread, struct memory *memory), (*give)(struct thread *thread, struct memory *memory);
} sorts[] = {{'m', get_managed, give_ordinary},  {'p', get_pooled, give_pooled}, {'s', get_in_stream, give_in_stream},
             {'a', get_ordinary, give_ordinary}, {'v', get_mapped, give_mapped}, {'r', get_registered, give_registered},
             {'h', get_host, give_host},         {'i', get_opened, give_opened}, {'o', get_with_module, give_with_module}};

static void use(struct thread *thread, const struct memory *memory)
{
    uint32_t first = (uint32_t)(thread->drawn >> 32), words[WORDS];
    CUdeviceptr address = memory->address;
    check(cuMemsetD32Async(address, first, WORDS, thread->stream));
    for (uint32_t step = 1; step <= 2; step++) {
        void *params[] = {&address, &step};
        check(cuLaunchKernel(thread->function, 1, 1, 1, WORDS, 1, 1, 0, thread->stream, params, NULL));
    }
    check(cuStreamSynchronize(thread->stream));
    check(cuMemcpyDtoH(words, address, BYTES));
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != first + 3)
            end(4, "WRONG", 0);
}

static uint64_t draw(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static const struct sort *sort_of(uint64_t drawn)
{
    char letter = wanted[drawn % strlen(wanted)];
    for (unsigned i = 0; i < sizeof sorts / sizeof sorts[0]; i++)
        if (sorts[i].letter == letter)
            return &sorts[i];
    end(2, "no such sort", 0);
    return NULL;
}

static void *run(void *argument)
{
    struct thread *thread = argument;
    uint64_t state = thread->drawn;
    check(cuCtxSetCurrent(context));
    check(cuStreamCreate(&thread->stream, CU_STREAM_NON_BLOCKING));
    for (unsigned round = 0; round < rounds; round++) {
        struct memory memory = {0};
        thread->drawn = draw(state += 0x9e3779b97f4a7c15u);
        thread->function = function;
        const struct sort *sort = sort_of(thread->drawn >> 8);
        sort->get(thread, &memory);
        use(thread, &memory);
        sort->give(thread, &memory);
    }
    check(cuStreamDestroy(thread->stream));
    return NULL;
}

static void start_cuda(void)
{
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxSetCurrent(context));
}

/* Another process, before this one begins: offers memory until it is told that this one is done. Returns what tells it. */
static int offer(pid_t *child)
{
    int handles[2], done[2];
    if (pipe(handles) || pipe(done) || (*child = fork()) < 0)
        end(2, "no process", 0);
    if (*child == 0) {
        CUdeviceptr memory;
        char none;
        close(done[1]);
        start_cuda();
        for (unsigned i = 0; i < THREADS; i++) {
            check(cuMemAlloc(&memory, BYTES));
            check(cuIpcGetMemHandle(&offered[i], memory));
        }
        if (write(handles[1], offered, sizeof offered) != (ssize_t)sizeof offered)
            _Exit(2);
        _Exit(read(done[0], &none, 1) == 0 ? 0 : 2);
    }
    close(handles[1]);
    close(done[0]);
    for (size_t got = 0; got < sizeof offered;) {
        ssize_t more = read(handles[0], (char *)offered + got, sizeof offered - got);
        if (more <= 0)
            end(2, "nothing offered", 0);
        got += (size_t)more;
    }
    return done[1];
}

int main(int count, char **values)
{
    struct thread threads[THREADS];
    uint64_t seed = count > 2 ? strtoull(values[2], NULL, 10) : 1;
    CUmodule module;
    pid_t child = 0;
    rounds = count > 1 ? (unsigned)atoi(values[1]) : 10;
    wanted = count > 3 ? values[3] : wanted;
    int offering = strchr(wanted, 'i') ? offer(&child) : -1;
    start_cuda();
    check(cuModuleLoadData(&module, ptx));
    check(cuModuleGetFunction(&function, module, "add"));
    shareable = make_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.drawn = draw(seed * THREADS + i), .number = i};
        pthread_create(&threads[i].id, NULL, run, &threads[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    if (child) {
        close(offering);
        waitpid(child, NULL, 0);
    }
    printf("right\n");
    return 0;
}
