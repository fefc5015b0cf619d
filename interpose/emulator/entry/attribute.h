/* Device attributes: what cuDeviceGetAttribute answers for a described device. */
#ifndef TSR_ENTRY_ATTRIBUTE_H
#define TSR_ENTRY_ATTRIBUTE_H

#include "api/driver.h"

#include <tessera/machine.h>

/* False: no such attribute in CUDA 13.0. */
int tsr_device_attribute(const struct tsr_device_desc *desc, int attribute, int *value);

#endif
