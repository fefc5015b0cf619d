/* What the tests share: setups, the second process, the kernels' module, small pieces of device memory, the gate. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

void use_nothing(void)
{
}

void use_init(void)
{
    OK(cuInit(0));
}

void use_primary(void)
{
    CUcontext context = NULL;
    NEED_OK(cuInit(0));
    NEED_OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
}

struct role_end role_run(const char *name, ...)
{
    struct role_end end = {.code = -1};
    char *arguments[16] = {"contract", "--role", (char *)name};
    va_list words;
    va_start(words, name);
    for (int i = 3; i < 12 && (arguments[i] = va_arg(words, char *)); i++)
        ;
    va_end(words);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return end;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        alarm(20);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    close(ends[1]);
    size_t fill = 0;
    ssize_t got;
    while (fill < sizeof(end.output) - 1 && (got = read(ends[0], end.output + fill, sizeof(end.output) - 1 - fill)) > 0)
        fill += (size_t)got;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return end;
}

void role_say(const char *name, long long value)
{
    char line[128];
    int length = snprintf(line, sizeof(line), "%s %lld\n", name, value);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(126);
}

long long role_heard(const struct role_end *end, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = end->output; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return atoll(line + length + 1);
    return -1;
}

CUmodule contract_module(void)
{
    static CUmodule module;
    if (!module)
        OK(cuModuleLoadData(&module, contract_ptx));
    return module;
}

CUfunction contract_kernel(const char *name)
{
    CUfunction function = NULL;
    CUmodule module = contract_module();
    if (module)
        OK(cuModuleGetFunction(&function, module, name));
    return function;
}

int device_attribute(CUdevice_attribute attribute)
{
    int value = -1;
    OK(cuDeviceGetAttribute(&value, attribute, 0));
    return value;
}

CUdeviceptr device_words(size_t words, uint32_t value)
{
    CUdeviceptr address = 0;
    if (OK(cuMemAlloc(&address, words * 4)))
        OK(cuMemsetD32(address, value, words));
    return address;
}

int device_holds(CUdeviceptr address, size_t words, uint32_t value)
{
    uint32_t *copy = malloc(words * 4);
    int holds = copy && cuMemcpyDtoH(copy, address, words * 4) == CUDA_SUCCESS;
    for (size_t i = 0; holds && i < words; i++)
        holds = copy[i] == value;
    free(copy);
    return holds;
}

int gate_close(struct gate *gate, CUstream stream)
{
    memset(gate, 0, sizeof(*gate));
    if (!OK(cuMemHostAlloc((void **)&gate->word, 64, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE)))
        return 0;
    *gate->word = 0;
    return OK(cuMemHostGetDevicePointer(&gate->address, gate->word, 0)) &&
           OK(cuStreamWaitValue32(stream, gate->address, 1, CU_STREAM_WAIT_VALUE_EQ));
}

void gate_open(struct gate *gate)
{
    if (gate->word)
        __atomic_store_n(gate->word, 1u, __ATOMIC_RELEASE);
}

void gate_free(struct gate *gate)
{
    if (gate->word)
        OK(cuMemFreeHost(gate->word));
}
