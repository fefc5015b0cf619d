/*
 * Where the real driver is. In this order:
 *
 *   1. the file that TESSERA_DRIVER names, and then only that
 *   2. the directories of LD_LIBRARY_PATH
 *   3. the dynamic loader's cache
 *   4. the directories of tessera/driver_places.h
 *
 * What the loader would find for the application, were we not there; controlplane/machine/driver.py looks in the same order. We are never the answer.
 */
#ifndef TSR_DRIVER_DRIVER_FILE_H
#define TSR_DRIVER_DRIVER_FILE_H

/* Opens it; NULL and a logged error if there is none. May be called by several threads at once: each gets the same handle. */
void *tsr_driver_file_open(void);

#endif
