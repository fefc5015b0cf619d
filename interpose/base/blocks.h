/*
 * Which parts of some address ranges are in use, and by whom. Knows addresses only, touches no memory behind them, takes no lock.
 *
 * A chunk is a range that was added as a whole; the blocks of a chunk tile it. A block is in use or belongs to a set of free blocks: either
 * to TSR_BLOCKS_FREE, from which anybody may take, or to a set that the caller numbers, from which only takers that name the set may take
 * (memory freed in a stream is free for that stream at once, and for all later). Neighbours in one chunk and one set are merged. Blocks are
 * taken at the lowest address that fits, which bounds fragmentation: with at most L bytes in use at a time in blocks of s to b bytes, first
 * fit needs at most L * (1 + log2(b / s)) bytes (Robson, 1977), and chunks of C bytes round that up to
 * L * (1 + log2(b / s)) * C / (C - b) + C. All operations are logarithmic in the number of blocks.
 */
#ifndef TESSERA_BASE_BLOCKS_H
#define TESSERA_BASE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define TSR_BLOCKS_USED 0ull
#define TSR_BLOCKS_FREE 1ull

struct tsr_treap_node { /* of a treap; see blocks.c */
    struct tsr_treap_node *left, *right;
    uint64_t key, bytes, most; /* most: the greatest bytes in this subtree */
    uint32_t priority;
};

struct tsr_block {
    struct tsr_treap_node by_address, in_set; /* keys: address */
    struct tsr_block *previous, *next;        /* by address, over all chunks */
    uint64_t set;                             /* USED, FREE or the caller's */
    bool first;                               /* of its chunk */
    void *owner;                              /* the caller's, of a block in use; NULL in a free one */
};

struct tsr_block_set {
    uint64_t number, bytes;
    struct tsr_treap_node *root;
};

/* Zero bytes: none. */
struct tsr_blocks {
    struct tsr_treap_node *root;
    struct tsr_block *lowest;
    struct tsr_block_set *sets;
    uint32_t set_count, set_room, random;
};

void tsr_blocks_fini(struct tsr_blocks *blocks);

static inline uint64_t tsr_block_address(const struct tsr_block *block)
{
    return block->by_address.key;
}

static inline uint64_t tsr_block_bytes(const struct tsr_block *block)
{
    return block->by_address.bytes;
}

/* A new chunk, free. False: no memory for the book-keeping. It overlaps no other. */
bool tsr_blocks_add(struct tsr_blocks *blocks, uint64_t address, uint64_t bytes);

/* The block that is the whole chunk, if it is free for all; else NULL. `block` is one of the chunk's. */
struct tsr_block *tsr_blocks_idle(struct tsr_block *block);
/* Takes a chunk away: a block that tsr_blocks_idle gave. */
void tsr_blocks_remove(struct tsr_blocks *blocks, struct tsr_block *chunk);

/* Takes the lowest block that fits; alignment is a power of two. NULL: nothing fits, or no memory for the book-keeping. */
struct tsr_block *tsr_blocks_take(struct tsr_blocks *blocks, uint64_t set, uint64_t bytes, uint64_t alignment);
/* Takes this very range from TSR_BLOCKS_FREE; NULL also when a part of it is not free. */
struct tsr_block *tsr_blocks_take_at(struct tsr_blocks *blocks, uint64_t address, uint64_t bytes);
/* Gives a block in use to a set. Returns the block that it is now part of. The set exists (tsr_blocks_set). */
struct tsr_block *tsr_blocks_give(struct tsr_blocks *blocks, struct tsr_block *block, uint64_t set);

/* Makes sure that the set exists, so that giving to it cannot fail. */
bool tsr_blocks_set(struct tsr_blocks *blocks, uint64_t set);
/* Bytes in a set. */
uint64_t tsr_blocks_bytes(const struct tsr_blocks *blocks, uint64_t set);
/* All blocks of the set become free for all; the set is gone. */
void tsr_blocks_release(struct tsr_blocks *blocks, uint64_t set);

/* The set has another number from now on; none has that yet. */
void tsr_blocks_rename(struct tsr_blocks *blocks, uint64_t set, uint64_t number);

/* The block that holds the address, free or not; NULL: in no chunk. */
struct tsr_block *tsr_blocks_find(const struct tsr_blocks *blocks, uint64_t address);
/* The same, or else the first block above the address; NULL: there is none. */
struct tsr_block *tsr_blocks_from(const struct tsr_blocks *blocks, uint64_t address);

#endif
