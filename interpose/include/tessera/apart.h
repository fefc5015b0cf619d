/*
 * Words that different threads or processes write stand so far apart that writing one takes the other from nobody: processors keep memory
 * in lines of 64 bytes and fetch them in pairs.
 */
#ifndef TESSERA_APART_H
#define TESSERA_APART_H

#define TSR_APART __attribute__((aligned(128)))

#endif
