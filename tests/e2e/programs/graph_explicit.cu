// A graph built node by node: memset, copies, kernels, a host node, a child graph; then node parameters changed in place.
#include "check.h"

__global__ void scale(int *data, int factor, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i] *= factor;
}

__global__ void accumulate(const int *in, int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] += in[i];
}

static void CUDART_CB count_call(void *counter)
{
    ++*(int *)counter;
}

int main()
{
    int count = 500, factor = 3, calls = 0;
    std::vector<int> in(count), out(count), want(count);
    for (int i = 0; i < count; i++)
        in[i] = i - 250;
    int *a = device_array<int>(count), *b = device_array<int>(count);

    cudaGraph_t child, graph;
    CUDA(cudaGraphCreate(&child, 0));
    cudaGraphNode_t inner;
    void *inner_arguments[] = {&a, &b, &count};
    cudaKernelNodeParams inner_params = {};
    inner_params.func = (void *)accumulate;
    inner_params.gridDim = dim3(4);
    inner_params.blockDim = dim3(128);
    inner_params.kernelParams = inner_arguments;
    CUDA(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &inner_params));

    CUDA(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t copy_in, clear, multiply, nested, copy_out, host;
    CUDA(cudaGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, a, in.data(), count * sizeof(int), cudaMemcpyHostToDevice));
    cudaMemsetParams clear_params = {};
    clear_params.dst = b;
    clear_params.elementSize = 4;
    clear_params.value = 10;
    clear_params.width = count;
    clear_params.height = 1;
    CUDA(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &clear_params));
    void *arguments[] = {&a, &factor, &count};
    cudaKernelNodeParams params = {};
    params.func = (void *)scale;
    params.gridDim = dim3(4);
    params.blockDim = dim3(128);
    params.kernelParams = arguments;
    CUDA(cudaGraphAddKernelNode(&multiply, graph, &copy_in, 1, &params));
    cudaGraphNode_t both[] = {multiply, clear};
    CUDA(cudaGraphAddChildGraphNode(&nested, graph, both, 2, child));
    CUDA(cudaGraphAddMemcpyNode1D(&copy_out, graph, &nested, 1, out.data(), b, count * sizeof(int), cudaMemcpyDeviceToHost));
    cudaHostNodeParams host_params = {count_call, &calls};
    CUDA(cudaGraphAddHostNode(&host, graph, &copy_out, 1, &host_params));

    cudaGraphNodeType type;
    CUDA(cudaGraphNodeGetType(nested, &type));
    EXPECT(type == cudaGraphNodeTypeGraph);
    size_t edges = 0;
    CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    EXPECT(edges == 5);

    cudaGraphExec_t executable;
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphLaunch(executable, nullptr));
    CUDA(cudaStreamSynchronize(nullptr));
    for (int i = 0; i < count; i++)
        want[i] = 10 + 3 * in[i];
    expect_equal("graph", out, want);
    EXPECT(calls == 1);

    int other = -7;
    void *changed[] = {&a, &other, &count};
    params.kernelParams = changed;
    CUDA(cudaGraphExecKernelNodeSetParams(executable, multiply, &params));
    CUDA(cudaGraphLaunch(executable, nullptr));
    CUDA(cudaStreamSynchronize(nullptr));
    for (int i = 0; i < count; i++)
        want[i] = 10 - 7 * in[i];
    expect_equal("changed parameters", out, want);
    EXPECT(calls == 2);

    cudaGraph_t copy;
    CUDA(cudaGraphClone(&copy, graph));
    CUDA(cudaGraphDestroy(graph));
    cudaGraphExec_t second;
    CUDA(cudaGraphInstantiate(&second, copy, 0));
    CUDA(cudaGraphLaunch(second, nullptr));
    CUDA(cudaStreamSynchronize(nullptr));
    for (int i = 0; i < count; i++)
        want[i] = 10 + 3 * in[i];
    expect_equal("clone", out, want);
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphExecDestroy(second));
    return finish();
}
