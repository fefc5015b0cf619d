extern "C" __global__ void scale(float *data, float by, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i] *= by;
}
