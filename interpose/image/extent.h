/* Images as the application gives them to the driver: where they begin and end. */
#ifndef TSR_IMAGE_EXTENT_H
#define TSR_IMAGE_EXTENT_H

#include <stddef.h>

/* The image itself, of what may be a wrapper around its address. */
const void *tsr_image_unwrap(const void *image);
/* Size of an image as cuModuleLoadData accepts it, from its own headers; 0: not one of the known forms. */
size_t tsr_image_bytes(const void *image);

#endif
