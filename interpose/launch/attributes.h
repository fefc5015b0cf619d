/*
 * Launch attributes on their way to an executor. Those that determine how a kernel runs are sent; hints that concern only the home GPU are
 * dropped; those that name objects of the application (events, graph nodes), and unknown ones, keep the launch at home. So do attributes that the
 * executor's driver would refuse and home's may not.
 */
#ifndef TSR_LAUNCH_ATTRIBUTES_H
#define TSR_LAUNCH_ATTRIBUTES_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/records.h>

#define TSR_MOST_ATTRIBUTES 16u

struct tsr_launch;

/* Whether the attribute says nothing to that GPU. */
bool tsr_attribute_is_left_out(const CUlaunchAttribute *attribute, CUdevice device);

/* out has room for TSR_MOST_ATTRIBUTES. device: the executor's GPU. */
enum tsr_reason tsr_attributes_translate(const struct tsr_launch *launch, uint32_t device, CUlaunchAttribute *out,
                                         uint32_t *count);

#endif
