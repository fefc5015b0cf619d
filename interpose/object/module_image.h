/* The image of a module, kept from load to unload for executors, and for parts that need to know what it is. */
#ifndef TSR_OBJECT_MODULE_IMAGE_H
#define TSR_OBJECT_MODULE_IMAGE_H

#include <stdint.h>

struct tsr_module_record;

/* It has been loaded from the image, or from the file: kept, if there is a session. */
void tsr_module_keep(struct tsr_module_record *module, const void *image);
void tsr_module_keep_file(struct tsr_module_record *module, const char *path);
/* It is being unloaded. */
void tsr_module_drop_image(struct tsr_module_record *module);

/* File name of the shared object or executable that held the image; empty: none did. */
const char *tsr_module_name(const struct tsr_module_record *module);
/* Of the image (base/hash.h); made when first asked for; 0: not known. */
uint64_t tsr_module_hash(struct tsr_module_record *module);

#endif
