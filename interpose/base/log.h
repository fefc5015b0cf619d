/*
 * The log: one write(2) of a stack buffer per line, to standard error or to the file of TESSERA_LOG_FILE. No allocation, no lock,
 * no stdio; errno is preserved; usable in constructors and in forked children. A line that cannot be written is dropped, without a signal.
 * A call site may write 20 lines at once and one per second after that; what it left out is counted in its next line.
 * Never call it on the path of every launch unless the level is off: then it costs one load and a compare.
 */
#ifndef TESSERA_BASE_LOG_H
#define TESSERA_BASE_LOG_H

#include <stdint.h>

enum tsr_log_level { TSR_LOG_ERROR, TSR_LOG_WARN, TSR_LOG_INFO, TSR_LOG_DEBUG };

/* Rate limit of one call site; all fields are accessed atomically. */
struct tsr_log_site {
    uint64_t next_ns;  /* monotonic time from which the site has its whole burst again */
    uint32_t left_out; /* lines dropped since the last one written */
};

#define tsr_log(level, ...)                                                                                                    \
    do {                                                                                                                       \
        static struct tsr_log_site tsr_log_here;                                                                               \
        if (tsr_log_wants(level))                                                                                              \
            tsr_log_write(&tsr_log_here, level, __VA_ARGS__);                                                                  \
    } while (0)
#define tsr_error(...) tsr_log(TSR_LOG_ERROR, __VA_ARGS__)
#define tsr_warn(...) tsr_log(TSR_LOG_WARN, __VA_ARGS__)
#define tsr_info(...) tsr_log(TSR_LOG_INFO, __VA_ARGS__)
#define tsr_debug(...) tsr_log(TSR_LOG_DEBUG, __VA_ARGS__)

extern int tsr_log_threshold; /* enum tsr_log_level; -1 until the options have been read */
int tsr_log_threshold_read(void);

static inline int tsr_log_wants(int level)
{
    int threshold = __atomic_load_n(&tsr_log_threshold, __ATOMIC_RELAXED);
    return level <= (threshold < 0 ? tsr_log_threshold_read() : threshold);
}

/* Formats as base/format.h does (no floating point); adds the prefix and the line end. */
void tsr_log_write(struct tsr_log_site *site, enum tsr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Called once by the options; file may be empty. */
void tsr_log_configure(int level, const char *file);

#endif
