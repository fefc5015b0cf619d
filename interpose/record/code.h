/*
 * Hands the code that the application loads to the control plane, which analyses it. Only at load time, and only if it is wanted
 * (TESSERA_CODE). An image that is part of a library or executable of the process is not copied: the file's descriptor is passed; other images
 * are copied, within a budget. The reader compares the hash of the code.
 */
#ifndef TSR_RECORD_CODE_H
#define TSR_RECORD_CODE_H

#include <stddef.h>
#include <stdint.h>

#define TSR_CODE_PATH_BYTES 1024u

struct tsr_code {
    const void *data;               /* the application's, or `read` */
    size_t bytes;                   /* 0: of an unknown form */
    uint64_t hash;                  /* 0: not known */
    uint64_t offset;                /* of the image in the file */
    int file;                       /* it lies there; -1: in memory only */
    void *read;                     /* what was read from a file that the application named */
    char path[TSR_CODE_PATH_BYTES]; /* of the file; empty: none is known */
};

/* Of an image as the driver got it, without wrapper; or of the file that the application named, when data is NULL. */
void tsr_code_find(struct tsr_code *code, const void *data, size_t bytes, const char *path);
/* Of an image that lies in memory only, `path` becomes that of the code that loaded it, in which the address `caller` lies. */
void tsr_code_name_loader(struct tsr_code *code, const void *caller);
/* module: its number; 0: linked into the image with the hash `linked_into`. */
void tsr_code_hand_over(const struct tsr_code *code, uint32_t module, uint64_t linked_into);
void tsr_code_done(struct tsr_code *code);

#endif
