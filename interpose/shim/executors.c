/* See executors.h. */
#include "shim/executors.h"

#include "shim/lane_client.h"
#include "shim/session.h"

static void tell_first(const struct tsr_message *message, uint32_t count)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; i < count; i++) {
        struct tsr_message copy = *message;
        tsr_lane_ask(session->lanes[i], &copy, -1);
    }
}

CUresult tsr_executors_ask(const struct tsr_message *message, int descriptor, const struct tsr_message *undo)
{
    const struct tsr_session *session = tsr_session();
    CUresult result = CUDA_SUCCESS;
    uint32_t told = 0;
    while (result == CUDA_SUCCESS && told < session->lane_count) {
        struct tsr_message copy = *message;
        result = tsr_lane_ask(session->lanes[told], &copy, descriptor);
        told += result == CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS && undo)
        tell_first(undo, told);
    return result;
}

void tsr_executors_tell(const struct tsr_message *message)
{
    tell_first(message, tsr_session()->lane_count);
}
