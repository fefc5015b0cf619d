/* What the project uses of the vendored decoder zstddeclib.c. */
#ifndef TSR_ZSTD_DECODER_H
#define TSR_ZSTD_DECODER_H

#include <stddef.h>

/* Bytes written, or an error for ZSTD_isError. Never writes past capacity, never reads past size. */
size_t ZSTD_decompress(void *to, size_t capacity, const void *from, size_t size);
unsigned ZSTD_isError(size_t result);

#endif
