/* See blocks.h. Treaps: search trees by address that random priorities keep balanced; each node knows the largest block below it. */
#include "base/blocks.h"

#include <stddef.h>
#include <stdlib.h>

static struct tsr_block *of_address(const struct tsr_treap_node *node)
{
    return (struct tsr_block *)((char *)node - offsetof(struct tsr_block, by_address));
}

static struct tsr_block *of_set(const struct tsr_treap_node *node)
{
    return (struct tsr_block *)((char *)node - offsetof(struct tsr_block, in_set));
}

static uint32_t random_next(struct tsr_blocks *blocks)
{
    uint32_t value = blocks->random ? blocks->random : 0x9e3779b9u;
    value ^= value << 13;
    value ^= value >> 17;
    value ^= value << 5;
    return blocks->random = value;
}

static void sum_up(struct tsr_treap_node *node)
{
    node->most = node->bytes;
    if (node->left && node->left->most > node->most)
        node->most = node->left->most;
    if (node->right && node->right->most > node->most)
        node->most = node->right->most;
}

/* Keys below `key` to *low, the others to *high. */
static void split(struct tsr_treap_node *node, uint64_t key, struct tsr_treap_node **low, struct tsr_treap_node **high)
{
    if (!node) {
        *low = *high = NULL;
        return;
    }
    if (node->key < key) {
        split(node->right, key, &node->right, high);
        *low = node;
    } else {
        split(node->left, key, low, &node->left);
        *high = node;
    }
    sum_up(node);
}

static struct tsr_treap_node *merge(struct tsr_treap_node *low, struct tsr_treap_node *high)
{
    if (!low || !high)
        return low ? low : high;
    if (low->priority > high->priority) {
        low->right = merge(low->right, high);
        sum_up(low);
        return low;
    }
    high->left = merge(low, high->left);
    sum_up(high);
    return high;
}

static void insert(struct tsr_treap_node **root, struct tsr_treap_node *node, uint32_t priority)
{
    struct tsr_treap_node *low, *high;
    node->left = node->right = NULL;
    node->priority = priority;
    node->most = node->bytes;
    split(*root, node->key, &low, &high);
    *root = merge(merge(low, node), high);
}

static void take_out(struct tsr_treap_node **root, const struct tsr_treap_node *node)
{
    struct tsr_treap_node *low, *middle, *high;
    split(*root, node->key, &low, &middle);
    split(middle, node->key + 1, &middle, &high);
    *root = merge(low, high);
}

static void resize(struct tsr_treap_node *node, uint64_t key, uint64_t bytes)
{
    if (node->key == key) {
        node->bytes = bytes;
        sum_up(node);
        return;
    }
    resize(node->key < key ? node->right : node->left, key, bytes);
    sum_up(node);
}

static struct tsr_treap_node *lowest_fit(struct tsr_treap_node *node, uint64_t bytes)
{
    if (!node || node->most < bytes)
        return NULL;
    while (node->bytes < bytes || (node->left && node->left->most >= bytes))
        node = node->left && node->left->most >= bytes ? node->left : node->right;
    return node;
}

static struct tsr_block_set *set_of(const struct tsr_blocks *blocks, uint64_t number)
{
    for (uint32_t i = 0; i < blocks->set_count; i++)
        if (blocks->sets[i].number == number)
            return &blocks->sets[i];
    return NULL;
}

bool tsr_blocks_set(struct tsr_blocks *blocks, uint64_t number)
{
    if (set_of(blocks, number))
        return true;
    if (blocks->set_count == blocks->set_room) {
        uint32_t room = 2 * blocks->set_room + 4;
        struct tsr_block_set *sets = realloc(blocks->sets, room * sizeof *sets);
        if (!sets)
            return false;
        blocks->sets = sets;
        blocks->set_room = room;
    }
    blocks->sets[blocks->set_count++] = (struct tsr_block_set){.number = number};
    return true;
}

uint64_t tsr_blocks_bytes(const struct tsr_blocks *blocks, uint64_t number)
{
    const struct tsr_block_set *set = set_of(blocks, number);
    return set ? set->bytes : 0;
}

static void join_set(struct tsr_blocks *blocks, struct tsr_block *block, uint64_t number)
{
    struct tsr_block_set *set = set_of(blocks, number);
    block->set = number;
    block->owner = NULL;
    block->in_set.key = tsr_block_address(block);
    block->in_set.bytes = tsr_block_bytes(block);
    insert(&set->root, &block->in_set, random_next(blocks));
    set->bytes += tsr_block_bytes(block);
}

static void leave_set(struct tsr_blocks *blocks, struct tsr_block *block)
{
    struct tsr_block_set *set = set_of(blocks, block->set);
    take_out(&set->root, &block->in_set);
    set->bytes -= tsr_block_bytes(block);
    block->set = TSR_BLOCKS_USED;
}

static void link_after(struct tsr_blocks *blocks, struct tsr_block *block, struct tsr_block *previous)
{
    block->previous = previous;
    block->next = previous ? previous->next : blocks->lowest;
    if (block->next)
        block->next->previous = block;
    if (previous)
        previous->next = block;
    else
        blocks->lowest = block;
    insert(&blocks->root, &block->by_address, random_next(blocks));
}

static void discard(struct tsr_blocks *blocks, struct tsr_block *block)
{
    if (block->previous)
        block->previous->next = block->next;
    else
        blocks->lowest = block->next;
    if (block->next)
        block->next->previous = block->previous;
    take_out(&blocks->root, &block->by_address);
    free(block);
}

static struct tsr_block *floor_of(const struct tsr_blocks *blocks, uint64_t address)
{
    const struct tsr_treap_node *node = blocks->root, *found = NULL;
    while (node) {
        if (node->key <= address)
            found = node;
        node = node->key <= address ? node->right : node->left;
    }
    return found ? of_address(found) : NULL;
}

struct tsr_block *tsr_blocks_find(const struct tsr_blocks *blocks, uint64_t address)
{
    struct tsr_block *block = floor_of(blocks, address);
    return block && address - tsr_block_address(block) < tsr_block_bytes(block) ? block : NULL;
}

struct tsr_block *tsr_blocks_from(const struct tsr_blocks *blocks, uint64_t address)
{
    struct tsr_block *block = floor_of(blocks, address);
    if (block && address - tsr_block_address(block) < tsr_block_bytes(block))
        return block;
    return block ? block->next : blocks->lowest;
}

bool tsr_blocks_add(struct tsr_blocks *blocks, uint64_t address, uint64_t bytes)
{
    struct tsr_block *block = tsr_blocks_set(blocks, TSR_BLOCKS_FREE) ? calloc(1, sizeof *block) : NULL;
    if (!block)
        return false;
    block->by_address.key = address;
    block->by_address.bytes = bytes;
    block->first = true;
    link_after(blocks, block, floor_of(blocks, address));
    join_set(blocks, block, TSR_BLOCKS_FREE);
    return true;
}

struct tsr_block *tsr_blocks_idle(struct tsr_block *block)
{
    bool whole = block->first && (!block->next || block->next->first);
    return whole && block->set == TSR_BLOCKS_FREE ? block : NULL;
}

void tsr_blocks_remove(struct tsr_blocks *blocks, struct tsr_block *chunk)
{
    leave_set(blocks, chunk);
    discard(blocks, chunk);
}

/* Cuts a block in use after `bytes`; the rest joins the set. */
static bool cut(struct tsr_blocks *blocks, struct tsr_block *block, uint64_t bytes, uint64_t set)
{
    uint64_t rest_bytes = tsr_block_bytes(block) - bytes;
    if (!rest_bytes)
        return true;
    struct tsr_block *rest = calloc(1, sizeof *rest);
    if (!rest)
        return false;
    rest->by_address.key = tsr_block_address(block) + bytes;
    rest->by_address.bytes = rest_bytes;
    resize(blocks->root, tsr_block_address(block), bytes);
    link_after(blocks, rest, block);
    join_set(blocks, rest, set);
    return true;
}

/* Takes [address, address + bytes) out of a free block. */
static struct tsr_block *carve(struct tsr_blocks *blocks, struct tsr_block *block, uint64_t address, uint64_t bytes)
{
    uint64_t set = block->set, before = address - tsr_block_address(block);
    leave_set(blocks, block);
    if (before) {
        if (!cut(blocks, block, before, set))
            goto undo;
        struct tsr_block *rest = block->next;
        join_set(blocks, block, set);
        block = rest;
        leave_set(blocks, block);
    }
    if (cut(blocks, block, bytes, set))
        return block;
undo:
    tsr_blocks_give(blocks, block, set);
    return NULL;
}

struct tsr_block *tsr_blocks_take(struct tsr_blocks *blocks, uint64_t number, uint64_t bytes, uint64_t alignment)
{
    const struct tsr_block_set *set = set_of(blocks, number);
    struct tsr_treap_node *node = set ? lowest_fit(set->root, bytes) : NULL;
    if (node && (node->key & (alignment - 1)))
        node = lowest_fit(set->root, bytes + alignment - 1);
    if (!node || bytes + alignment - 1 < bytes)
        return NULL;
    uint64_t address = (node->key + alignment - 1) & ~(alignment - 1);
    return carve(blocks, of_set(node), address, bytes);
}

struct tsr_block *tsr_blocks_take_at(struct tsr_blocks *blocks, uint64_t address, uint64_t bytes)
{
    struct tsr_block *block = tsr_blocks_find(blocks, address);
    if (!block || block->set != TSR_BLOCKS_FREE || tsr_block_bytes(block) - (address - tsr_block_address(block)) < bytes)
        return NULL;
    return carve(blocks, block, address, bytes);
}

/* `block` and its successor become one. */
static void swallow_next(struct tsr_blocks *blocks, struct tsr_block *block)
{
    struct tsr_block *next = block->next;
    uint64_t bytes = tsr_block_bytes(block) + tsr_block_bytes(next);
    discard(blocks, next);
    resize(blocks->root, tsr_block_address(block), bytes);
}

struct tsr_block *tsr_blocks_give(struct tsr_blocks *blocks, struct tsr_block *block, uint64_t set)
{
    if (block->next && !block->next->first && block->next->set == set) {
        leave_set(blocks, block->next);
        swallow_next(blocks, block);
    }
    if (!block->first && block->previous->set == set) {
        block = block->previous;
        leave_set(blocks, block);
        swallow_next(blocks, block);
    }
    join_set(blocks, block, set);
    return block;
}

void tsr_blocks_release(struct tsr_blocks *blocks, uint64_t number)
{
    struct tsr_block_set *set = set_of(blocks, number);
    while (set && set->root) {
        struct tsr_block *block = of_set(set->root);
        leave_set(blocks, block);
        tsr_blocks_give(blocks, block, TSR_BLOCKS_FREE);
    }
    if (set)
        *set = blocks->sets[--blocks->set_count];
}

static void renumber(struct tsr_treap_node *node, uint64_t number)
{
    if (!node)
        return;
    of_set(node)->set = number;
    renumber(node->left, number);
    renumber(node->right, number);
}

void tsr_blocks_rename(struct tsr_blocks *blocks, uint64_t number, uint64_t new_number)
{
    struct tsr_block_set *set = set_of(blocks, number);
    if (!set)
        return;
    set->number = new_number;
    renumber(set->root, new_number);
}

void tsr_blocks_fini(struct tsr_blocks *blocks)
{
    for (struct tsr_block *block = blocks->lowest, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(blocks->sets);
    *blocks = (struct tsr_blocks){0};
}
