/*
 * The one hash of contents: names, texts and images of code. 64 bits, never 0, so that 0 can stand for "unknown". Not cryptographic. A sum over
 * the words of 8 bytes, each mixed with its position, so that no word waits for the one before; controlplane/base/content.py is the same in Python.
 */
#ifndef TESSERA_BASE_HASH_H
#define TESSERA_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t tsr_hash(const void *data, size_t bytes);

#endif
