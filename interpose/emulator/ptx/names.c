/* See names.h. */
#include "names.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_word(struct tsr_word word)
{
    uint64_t hash = word.length;
    const char *at = word.text;
    uint32_t left = word.length;
    uint64_t part;
    for (; left >= 8; at += 8, left -= 8) {
        memcpy(&part, at, 8);
        hash = (hash ^ part) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, at, left);
    hash = (hash ^ part) * 0x9e3779b97f4a7c15ull;
    hash = (hash ^ hash >> 32) * 0xc2b2ae3d27d4eb4full; /* a product's low half never sees the high characters */
    return (uint32_t)(hash >> 32);
}

static bool grow(struct tsr_names *names)
{
    uint32_t size = names->buckets ? (names->mask + 1) * 2 : 1024;
    struct tsr_ptx_name **buckets = calloc(size, sizeof(struct tsr_ptx_name *));
    if (!buckets)
        return false;
    for (uint32_t i = 0; names->buckets && i <= names->mask; i++)
        for (struct tsr_ptx_name *name = names->buckets[i], *next; name; name = next) {
            next = name->next;
            name->next = buckets[name->hash & (size - 1)];
            buckets[name->hash & (size - 1)] = name;
        }
    free(names->buckets);
    names->buckets = buckets;
    names->mask = size - 1;
    return true;
}

struct tsr_ptx_name *tsr_names_intern(struct tsr_names *names, struct tsr_word word)
{
    uint32_t hash = hash_word(word);
    if (names->buckets)
        for (struct tsr_ptx_name *name = names->buckets[hash & names->mask]; name; name = name->next)
            if (name->hash == hash && name->length == word.length && memcmp(name->text, word.text, word.length) == 0)
                return name;
    if ((!names->buckets || names->count > names->mask) && !grow(names))
        return NULL;
    struct tsr_ptx_name *name = tsr_arena_alloc(names->arena, sizeof *name + word.length + 1, sizeof(void *));
    if (!name)
        return NULL;
    char *text = (char *)(name + 1);
    memcpy(text, word.text, word.length);
    name->text = text;
    name->length = word.length;
    name->hash = hash;
    name->next = names->buckets[hash & names->mask];
    names->buckets[hash & names->mask] = name;
    names->count++;
    return name;
}

void tsr_names_fini(struct tsr_names *names)
{
    free(names->buckets);
    names->buckets = NULL;
    names->count = names->mask = 0;
}
