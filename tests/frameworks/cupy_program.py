"""CuPy: element-wise kernels and reductions that it compiles itself, raw kernels, libraries, streams, a graph."""

import cupy
import numpy
from common import Digest, main

SCALE = """
extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""


def run(digest: Digest) -> None:
    random = numpy.random.default_rng(3)
    x = cupy.asarray(random.standard_normal((512, 512), dtype="float32"))
    results = [x @ x, cupy.sort(x, axis=1), x.sum(0), cupy.fft.fft(x[0]), cupy.cumsum(x[1])]
    results.append(cupy.linalg.qr(x[:64, :64])[0])
    scale = cupy.RawKernel(SCALE, "scale")
    y = cupy.empty_like(x)
    scale((x.size // 256,), (256,), (x, y, cupy.float32(1.5), x.size))
    results.append(y)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        y *= 2
        graph = stream.end_capture()
        for _ in range(3):
            graph.launch(stream)
    stream.synchronize()
    digest.add(*(cupy.asnumpy(result) for result in [*results, y]))


main(run)
