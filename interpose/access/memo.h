/*
 * What is remembered of a template's launches: their ranges, relative to the bases, by everything that they depend on. That is the shape
 * and what was asked of the inputs: bits of their values, and of pointers whether they are null or point into an allocation; of most
 * pointers, nothing was. What is asked is a path: a kernel's parameters often have room for more dimensions than a launch uses, and what
 * lies there is anything. There are a few paths per template.
 *
 * Entries lie in a log, the newest in the place of the oldest. Any number of threads look up without waiting, one at a time adds; who comes
 * beside it does not add. A path does not change once it is counted. Before a part of the log is written, `reserved` says so: what was read
 * of a part that is not the log's any more is thrown away.
 */
#ifndef TESSERA_ACCESS_MEMO_H
#define TESSERA_ACCESS_MEMO_H

#include "access/evaluation.h"

#define TSR_MEMO_SHAPE 4u  /* words of a key: grid, block, size of the parameter block; answers follow */
#define TSR_MEMO_PATHS 12u /* what leads along further ones is not remembered */
#define TSR_MEMO_RANGES 24u /* up to which ranges are added that only say what is overwritten */

struct tsr_memo_path;

struct tsr_memo {
    const struct tsr_inputs *inputs;
    uint32_t entries; /* launches that are remembered at most; 0: none is */
    uint32_t most;    /* words of a key at most */
    uint64_t words;   /* of the log, a power of two */
    uint64_t *
        slots; /* atomic; begins the memo's memory; in a hash table: a part of the key's hash, and where in the log the entry begins */
    uint64_t *log; /* atomic */
    const struct tsr_memo_path *paths[TSR_MEMO_PATHS];
    uint32_t path_count; /* atomic */
    bool is_adding;      /* atomic; whoever made it true may change what follows */
    uint32_t next;       /* which one of those that a key may have is replaced next */
    uint32_t path_words; /* that are used */
    uint64_t *path_store;
    uint64_t reserved; /* atomic; words of the log that were ever written, or are being written */
};

bool tsr_memo_init(struct tsr_memo *memo, uint32_t entries, const struct tsr_inputs *inputs);
void tsr_memo_fini(struct tsr_memo *memo);

/* Where found->ranges is on entry there is room for `capacity`. False: not remembered, or with more ranges. `key`: room for the words of a key. */
bool tsr_memo_find(const struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, uint32_t capacity,
                   struct tsr_found *found);
/* `seen`: what was asked of each input. */
void tsr_memo_add(struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, const struct tsr_seen *seen,
                  const struct tsr_found *found);

#endif
