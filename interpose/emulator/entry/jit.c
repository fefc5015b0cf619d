/* See jit.h. */
#include "jit.h"

#include <stdarg.h>
#include <string.h>

#include "base/format.h"

CUresult tsr_jit_parse(unsigned count, CUjit_option *options, void **values, struct tsr_jit_log *log)
{
    memset(log, 0, sizeof *log);
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        switch ((int)options[i]) {
        case CU_JIT_INFO_LOG_BUFFER:
            log->info.text = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            log->info.size = (unsigned)(uintptr_t)values[i];
            log->info.size_option = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            log->error.text = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            log->error.size = (unsigned)(uintptr_t)values[i];
            log->error.size_option = &values[i];
            break;
        case CU_JIT_WALL_TIME:
            log->wall_time_ms = (float *)&values[i];
            break;
        case CU_JIT_MAX_REGISTERS:
            log->max_registers = (unsigned)(uintptr_t)values[i];
            break;
        default:
            if ((int)options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    struct tsr_jit_buffer *buffers[] = {&log->info, &log->error};
    for (int i = 0; i < 2; i++) {
        if (buffers[i]->text && buffers[i]->size)
            buffers[i]->text[0] = 0;
        if (buffers[i]->size_option)
            *buffers[i]->size_option = 0;
    }
    if (log->wall_time_ms)
        *log->wall_time_ms = 0;
    return CUDA_SUCCESS;
}

void tsr_jit_say(struct tsr_jit_buffer *buffer, const char *format, ...)
{
    if (!buffer->text || buffer->used + 1 >= buffer->size)
        return;
    va_list values;
    va_start(values, format);
    buffer->used += tsr_format_list(buffer->text + buffer->used, buffer->size - buffer->used, format, values);
    va_end(values);
    if (buffer->size_option)
        *buffer->size_option = (void *)(uintptr_t)(buffer->used + 1);
}
