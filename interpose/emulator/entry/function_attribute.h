/* Attributes and parameter layouts of functions and kernels. */
#ifndef TSR_ENTRY_FUNCTION_ATTRIBUTE_H
#define TSR_ENTRY_FUNCTION_ATTRIBUTE_H

#include "loaded.h"

/* Errors: INVALID_VALUE for an unknown attribute. */
CUresult tsr_function_attribute_get(const struct tsr_function *function, const struct tsr_ptx_code *code,
                                    const struct tsr_function_settings *settings, const struct tsr_device_desc *desc,
                                    CUfunction_attribute attribute, int *value);
/* Errors: INVALID_VALUE for an attribute that cannot be set, or a value out of range. */
CUresult tsr_function_attribute_set(const struct tsr_function *function, struct tsr_function_settings *settings,
                                    const struct tsr_device_desc *desc, CUfunction_attribute attribute, int value);
/* size may be NULL. Errors: INVALID_VALUE past the last parameter. */
CUresult tsr_function_param(const struct tsr_function *function, size_t index, size_t *offset, size_t *size);
/* Threads per block that the function can be launched with on the device. */
int tsr_function_max_threads(const struct tsr_function *function, const struct tsr_device_desc *desc);

#endif
