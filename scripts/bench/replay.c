/*
 * What relaunching a graph costs the thread that does: replay NODES BUFFERS BURSTS LAUNCHES. The graph is a chain of kernels, each of which adds one
 * buffer of 4 MiB to the next. Prints a line per burst: nanoseconds of the thread's processor time per launch.
 */
#include <stdlib.h>

#include "start.h"

#define BYTES (4u << 20)
#define MOST_BUFFERS 256u

static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                          ".visible .entry add(.param .u64 to, .param .u64 from)\n"
                          "{\n"
                          "    .reg .b64 %a<4>; .reg .b32 %r<4>;\n"
                          "    ld.param.u64 %a1, [to]; ld.param.u64 %a2, [from];\n"
                          "    mov.u32 %r1, %tid.x; mul.wide.u32 %a3, %r1, 4;\n"
                          "    add.u64 %a1, %a1, %a3; add.u64 %a2, %a2, %a3;\n"
                          "    ld.global.u32 %r2, [%a1]; ld.global.u32 %r3, [%a2];\n"
                          "    add.u32 %r2, %r2, %r3; st.global.u32 [%a1], %r2;\n"
                          "    ret;\n"
                          "}\n";

int main(int count, char **values)
{
    CUmodule module;
    CUfunction add;
    CUstream stream;
    CUgraph graph;
    CUgraphExec instance;
    CUdeviceptr buffers[MOST_BUFFERS];
    unsigned nodes = count == 5 ? (unsigned)atoi(values[1]) : 0, used = count == 5 ? (unsigned)atoi(values[2]) : 0;
    if (!nodes || !used || used > MOST_BUFFERS)
        return 2;
    start_context();
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < used; i++)
        CHECK(cuMemAlloc(&buffers[i], BYTES));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < nodes; i++) {
        void *params[] = {&buffers[i % used], &buffers[(i + 1) % used]};
        CHECK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    }
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&instance, graph, 0));
    for (int burst = 0; burst < atoi(values[3]); burst++) {
        int launches = atoi(values[4]);
        CHECK(cuGraphLaunch(instance, stream));
        double begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < launches; i++)
            CHECK(cuGraphLaunch(instance, stream));
        printf("%.1f\n", (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / launches);
        CHECK(cuStreamSynchronize(stream));
    }
    return 0;
}
