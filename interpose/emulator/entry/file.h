/* Images in files: reads a whole file, with a NUL after it so that PTX text ends. */
#ifndef TSR_ENTRY_FILE_H
#define TSR_ENTRY_FILE_H

#include "api/driver.h"

struct tsr_file {
    char *bytes; /* to be freed by the caller */
    size_t size; /* without the NUL */
};

/* Errors: FILE_NOT_FOUND, OUT_OF_MEMORY, OPERATING_SYSTEM. */
CUresult tsr_file_read(const char *path, struct tsr_file *out);

#endif
