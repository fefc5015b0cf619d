"""One graph, built by hand, launched again and again: `simple_guest.py TIMES`."""
import ctypes, sys
from pathlib import Path
import numpy
from cuda.bindings import driver
sys.path.append(str(Path(__file__).parents[2]))
from tests.bindings import call, elementwise, functions, use_gpu
MIX = """
    ld.global.u32 %r1, [%to];
    ld.global.u32 %r2, [%from];
    mad.lo.u32 %r1, %r1, 1664525, %r2;
    st.global.u32 [%to], %r1;
"""
use_gpu()
mix = functions(elementwise("mix", ("to","from"), ("count",), MIX))["mix"]
N=4096
bufs=[int(call(driver.cuMemAlloc(4*N))) for _ in range(3)]
for i,b in enumerate(bufs):
    call(driver.cuMemcpyHtoD(b, numpy.arange(N,dtype=numpy.uint32)*(i+1), 4*N))
s=call(driver.cuStreamCreate(1))
def launch(to, fr):
    call(driver.cuLaunchKernel(mix, N//128,1,1,128,1,1,0,s,((to,fr,N),(ctypes.c_uint64,)*2+(ctypes.c_uint32,)),0))
launch(bufs[0],bufs[1])
call(driver.cuStreamSynchronize(s))
call(driver.cuStreamBeginCapture(s, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
launch(bufs[0],bufs[1]); launch(bufs[2],bufs[0])
call(driver.cuMemcpyDtoDAsync(bufs[1],bufs[2],4*N,s))
g=call(driver.cuStreamEndCapture(s))
e=call(driver.cuGraphInstantiate(g,0))
for _ in range(int(sys.argv[1])):
    call(driver.cuGraphLaunch(e,s))
call(driver.cuStreamSynchronize(s))
out=numpy.zeros(N,numpy.uint32)
for b in bufs:
    call(driver.cuMemcpyDtoH(out,b,4*N)); print(int(out.sum()))
