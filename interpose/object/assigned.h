/*
 * Which GPU a stream or a thread was given, by rules that give GPUs to streams or threads (schedule/assign.h): the part of its record that
 * says so. Not given yet is all zeros.
 */
#ifndef TSR_OBJECT_ASSIGNED_H
#define TSR_OBJECT_ASSIGNED_H

#include <stdint.h>

#define TSR_ASSIGNED_HOME 1u
#define TSR_ASSIGNED_LANES 2u /* the first of them */

struct tsr_assigned {
    uint32_t place;    /* atomic; 0: none yet; TSR_ASSIGNED_HOME; TSR_ASSIGNED_LANES + k: lane k */
    uint64_t launches; /* atomic; that went there. Several threads that launch in one stream may lose some */
    uint64_t seen;     /* lock of assign.c; launches at the last look */
    uint64_t used_ns;  /* lock of assign.c; monotonic: when a look found new launches, or it was given */
};

#endif
