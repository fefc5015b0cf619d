/* See executors.h. */
#include "lane/executors.h"

#include "base/log.h"
#include "lane/lane_client.h"
#include "object/session.h"

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
    uint32_t asked = 0;
    while (result == CUDA_SUCCESS && asked < session->lane_count) {
        struct tsr_message copy = *message;
        result = tsr_lane_ask(session->lanes[asked], &copy, descriptor);
        asked += result == CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS && undo)
        tell_first(undo, asked);
    return result;
}

void tsr_executors_tell(const struct tsr_message *message)
{
    tell_first(message, tsr_session()->lane_count);
}

void tsr_executors_limit(CUlimit limit, size_t value)
{
    bool mirrored = limit == CU_LIMIT_STACK_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE;
    const struct tsr_session *session = mirrored ? tsr_session() : NULL;
    for (uint32_t i = 0; session && i < session->lane_count; i++) {
        struct tsr_message message = {.kind = TSR_MESSAGE_LIMIT, .detail = (int32_t)limit, .bytes = value};
        if (tsr_lane_ask(session->lanes[i], &message, -1) != CUDA_SUCCESS)
            tsr_warn("executor %u keeps its limit %d, the application's is %zu now", i, (int)limit, value);
    }
}
