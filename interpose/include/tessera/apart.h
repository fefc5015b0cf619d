/*
 * Keeps words that different threads or processes write in different cache lines, so that writing one does not invalidate the others (false sharing).
 * Lines have 64 bytes, and processors fetch them in pairs.
 */
#ifndef TESSERA_APART_H
#define TESSERA_APART_H

#define TSR_APART __attribute__((aligned(128)))

#endif
