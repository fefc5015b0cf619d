/*
 * Access sets of launches, remembered by thread for launches that are alike (alike.h): they are valid as long as neither memory nor modules nor
 * what is known of functions has changed.
 */
#ifndef TSR_LAUNCH_REMEMBERED_H
#define TSR_LAUNCH_REMEMBERED_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_launch;
struct tsr_touches;

struct tsr_remembered_stamp {
    uint64_t addresses, modules, knowledge;
};

struct tsr_remembered {
    bool known;                        /* the access set has been found */
    uint64_t hash;                     /* 0: such a launch is not remembered */
    struct tsr_remembered_stamp stamp; /* from before it is determined */
};

struct tsr_remembered tsr_remembered_find(const struct tsr_launch *launch, struct tsr_touches *out);
void tsr_remembered_keep(const struct tsr_remembered *remembered, const struct tsr_launch *launch,
                         const struct tsr_touches *touches);

#endif
