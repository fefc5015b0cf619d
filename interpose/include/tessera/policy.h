/*
 * The decision table: where launches go. Written by the control plane from the policy file into a memory file named by
 * TESSERA_POLICY (/proc/<pid>/fd/<n>), read by the shim. Rules are tried in order; the first whose glob matches the function's name decides.
 *
 * Read by C and, through cffi, by Python. Bump TSR_POLICY_VERSION on any change; both sides refuse another version.
 */
#ifndef TESSERA_POLICY_H
#define TESSERA_POLICY_H

#include <stdint.h>

#define TSR_POLICY_MAGIC 0x4c4f505f52535454ull
#define TSR_POLICY_VERSION 1u

/* cffi: begin */
struct tsr_policy_executor {
    uint32_t device; /* number of the GPU */
    uint32_t reserved;
    char socket[64]; /* name in the abstract namespace, without the leading NUL */
};

struct tsr_policy_rule {
    char function[248]; /* glob over the function's name as the driver knows it */
    int32_t device;     /* number of an executor's GPU, or of the home GPU */
    uint32_t line;      /* in the policy file */
};

struct tsr_policy {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t home; /* number of the GPU the application uses */
    int32_t default_device;
    uint32_t executor_count;
    uint32_t rule_count;
    struct tsr_policy_executor executors[15];
    struct tsr_policy_rule rules[256];
    /* live: written by the shim, atomic */
    uint64_t launches[16]; /* by GPU that ran them */
    uint64_t kept_home;    /* launches that a rule sent elsewhere and that stayed */
};
/* cffi: end */

#endif
