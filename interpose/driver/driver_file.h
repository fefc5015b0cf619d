/*
 * Where the real driver is. In this order:
 *
 *   1. the file that TESSERA_DRIVER names, and then only that
 *   2. the directories of LD_LIBRARY_PATH
 *   3. the dynamic loader's cache
 *   4. the directories of tessera/driver_places.h
 *
 * This is what the loader would find for the application without the shim; controlplane/machine/driver.py searches in the same order. The shim itself is
 * never the answer.
 */
#ifndef TSR_DRIVER_DRIVER_FILE_H
#define TSR_DRIVER_DRIVER_FILE_H

/* Opens it; NULL and a logged error if there is none. May be called by several threads at once: each gets the same handle. */
void *tsr_driver_file_open(void);

#endif
