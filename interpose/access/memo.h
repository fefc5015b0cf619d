/*
 * What is remembered of a template's launches: their ranges, relative to the bases, by everything that they depend on. That is the shape
 * and the bits of the inputs that were looked at; of most pointers, none were. Which these are is a path: a kernel's parameters often have
 * room for more dimensions than a launch uses, and what lies there is anything. There are a few paths per template.
 *
 * Any number of threads look up and add without waiting for each other. A path does not change once it is ready. An entry has a sequence
 * number that is odd while it is written, and what was read beside a change is thrown away.
 */
#ifndef TESSERA_ACCESS_MEMO_H
#define TESSERA_ACCESS_MEMO_H

#include "access/evaluation.h"

#define TSR_MEMO_SHAPE 4u  /* words of a key: grid, block, size of the parameter block; the inputs' bits follow */
#define TSR_MEMO_PATHS 12u /* what leads along further ones is not remembered */
#define TSR_MEMO_RANGES 24u

struct tsr_memo {
    const struct tsr_inputs *inputs;
    uint32_t entries, width; /* width: inputs and symbols */
    uint32_t next;           /* atomic; which one of those that a key may have is replaced next */
    size_t entry_words, path_words;
    uint64_t *paths;
    uint64_t *hashes; /* atomic; of each entry, 0: empty */
    uint64_t *store;
};

bool tsr_memo_init(struct tsr_memo *memo, uint32_t entries, const struct tsr_inputs *inputs);
void tsr_memo_fini(struct tsr_memo *memo);

/* False: not remembered. `key`: room for the words of a key; `ranges`: for TSR_MEMO_RANGES. */
bool tsr_memo_find(const struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, struct tsr_found *found,
                   struct tsr_access_range *ranges);
/* `seen`: the bits of each input that were looked at. */
void tsr_memo_add(struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, const uint64_t *seen,
                  const struct tsr_found *found);

#endif
