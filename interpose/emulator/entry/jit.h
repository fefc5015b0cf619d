/* JIT options: where the application wants the compiler's messages, and its bound on registers. Other known options have no effect. */
#ifndef TSR_ENTRY_JIT_H
#define TSR_ENTRY_JIT_H

#include "api/driver.h"

struct tsr_jit_buffer {
    char *text;         /* the application's; NULL when it gave none */
    size_t size, used;  /* used: without the NUL */
    void **size_option; /* where the driver reports how much it filled */
};

struct tsr_jit_log {
    struct tsr_jit_buffer info, error;
    float *wall_time_ms;
    unsigned max_registers; /* per thread; 0: not given */
};

/* Errors: INVALID_VALUE for an unknown option or missing arrays. */
CUresult tsr_jit_parse(unsigned count, CUjit_option *options, void **values, struct tsr_jit_log *log);
void tsr_jit_say(struct tsr_jit_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
