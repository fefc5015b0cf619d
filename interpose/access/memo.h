/*
 * What is remembered of a template's launches: their ranges, relative to the bases, by everything that they depend on. That is the shape
 * and the bits of the inputs that mattered; of most pointers, none did. Any number of threads look up and add without waiting for each
 * other: an entry has a sequence number that is odd while it is written, and what was read beside a change is thrown away.
 */
#ifndef TESSERA_ACCESS_MEMO_H
#define TESSERA_ACCESS_MEMO_H

#include "access/evaluation.h"

#define TSR_MEMO_SHAPE 4u /* words: grid, block, size of the parameter block */

struct tsr_memo {
    uint32_t entries, inputs;
    uint32_t next;    /* atomic; the entry to be replaced next */
    size_t words;     /* of an entry */
    uint64_t *masks;  /* atomic; bits of each input that ever mattered */
    uint64_t *hashes; /* atomic; of each entry, 0: empty */
    uint64_t *store;
};

bool tsr_memo_init(struct tsr_memo *memo, uint32_t entries, uint32_t inputs);
void tsr_memo_fini(struct tsr_memo *memo);

/* `key`: the words of the shape, then the inputs. False: not remembered. `ranges`: room for TSR_MEMO_RANGES. */
#define TSR_MEMO_RANGES 16u
bool tsr_memo_find(const struct tsr_memo *memo, const uint64_t *key, struct tsr_found *found, struct tsr_access_range *ranges);
void tsr_memo_add(struct tsr_memo *memo, const uint64_t *key, const uint64_t *seen, const struct tsr_found *found);

#endif
