/* Launches that were due for a test of their accesses and were not tested, or not completely: counted, and reported by function (tessera/checks.h). */
#ifndef TSR_CHECK_UNTESTED_H
#define TSR_CHECK_UNTESTED_H

#include <tessera/checks.h>

struct tsr_function_record;

struct tsr_lack {
    enum tsr_check_lack kind;
    char why[sizeof((struct tsr_check_untested *)0)->why];
};

void tsr_lack_set(struct tsr_lack *lack, enum tsr_check_lack kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A launch of the function; the memory lock is held. */
void tsr_untested_count_locked(struct tsr_checks *checks, const struct tsr_function_record *function,
                               const struct tsr_lack *lack);

#endif
