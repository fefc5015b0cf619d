/* Several host threads, and the entry points whose default stream is the thread's own. */
#include "contract.h"

#include <pthread.h>

GROUP(threads, use_primary)

enum { THREADS = 4, ROUNDS = 20, WORDS = 512 };

struct worker {
    CUcontext context;
    CUfunction add;
    CUresult result;
    int right;
};

static CUresult work(struct worker *worker)
{
    CUstream stream = NULL;
    CUdeviceptr a = 0;
    uint32_t one = 1, words = WORDS, read[WORDS];
    void *arguments[] = {&a, &one, &words};
    CUresult result = cuCtxSetCurrent(worker->context);
    if (!result)
        result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = cuMemAlloc(&a, sizeof(read));
    if (!result)
        result = cuMemsetD32Async(a, 5, WORDS, stream);
    for (int i = 0; !result && i < ROUNDS; i++)
        result = cuLaunchKernel(worker->add, WORDS / 64, 1, 1, 64, 1, 1, 0, stream, arguments, NULL);
    if (!result)
        result = cuMemcpyDtoHAsync(read, a, sizeof(read), stream);
    if (!result)
        result = cuStreamSynchronize(stream);
    if (!result)
        result = cuStreamDestroy(stream);
    for (int i = 0; !result && i < WORDS; i++)
        worker->right += read[i] == 5 + ROUNDS;
    return result ? result : cuMemFree(a);
}

static void *run_worker(void *data)
{
    struct worker *worker = data;
    worker->result = work(worker);
    return NULL;
}

TEST(work_side_by_side)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    CUcontext context = NULL;
    OK(cuCtxGetCurrent(&context));
    CUfunction add = contract_kernel("add");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.context = context, .add = add};
        EQ(pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        EQ(workers[i].result, CUDA_SUCCESS);
        EQ(workers[i].right, WORDS);
    }
}

static void *per_thread(const char *name)
{
    void *function = NULL;
    OK(cuGetProcAddress(name, &function, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    TRUE(function != NULL);
    return function;
}

TEST(default_stream_of_the_thread)
{
    CUresult (*get_id)(CUstream, unsigned long long *) = per_thread("cuStreamGetId");
    unsigned long long here = 0, explicitly = 0, legacy = 0;
    if (!get_id)
        return;
    OK(get_id(NULL, &here));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &explicitly));
    EQ(here, explicitly);
    OK(get_id(CU_STREAM_LEGACY, &legacy));
    TRUE(legacy != here);
    OK(cuStreamGetId(NULL, &explicitly));
    EQ(explicitly, legacy);
}

TEST(calls_on_the_default_stream_of_the_thread)
{
    CUresult (*to_device)(CUdeviceptr, const void *, size_t) = per_thread("cuMemcpyHtoD");
    CUresult (*from_device)(void *, CUdeviceptr, size_t) = per_thread("cuMemcpyDtoH");
    CUresult (*set)(CUdeviceptr, unsigned, size_t) = per_thread("cuMemsetD32");
    CUresult (*synchronize)(CUstream) = per_thread("cuStreamSynchronize");
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                       void **) = per_thread("cuLaunchKernel");
    uint32_t words[4] = {1, 2, 3, 4}, read[4] = {0}, value = 10, count = 4;
    CUdeviceptr a = device_words(4, 0);
    void *arguments[] = {&a, &value, &count};
    if (!to_device || !from_device || !set || !synchronize || !launch)
        return;
    OK(to_device(a, words, sizeof(words)));
    OK(launch(contract_kernel("add"), 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(synchronize(NULL));
    OK(from_device(read, a, sizeof(read)));
    EQ(read[0], 11);
    EQ(read[3], 14);
    OK(set(a, 6, 4));
    OK(synchronize(NULL));
    TRUE(device_holds(a, 4, 6));
    EXPECT_SURE(launch(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(a));
}
