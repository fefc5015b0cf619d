/* Channel descriptors are plain data, so they can be made although CUDA arrays are not supported. */
#include "cudart/abi.h"

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}
