/*
 * A growable array of one type, declared in place:
 *
 *     TSR_VEC(struct range) ranges = {0};
 *     if (!tsr_vec_push(&ranges, range)) ...out of memory, the array is unchanged
 *     for (size_t i = 0; i < ranges.count; i++) use(ranges.data[i]);
 *     tsr_vec_fini(&ranges);
 *
 * Zero bytes are the empty array. Growing moves the elements: keep indices, not addresses.
 */
#ifndef TESSERA_BASE_VEC_H
#define TESSERA_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define TSR_VEC(type)                                                                                                          \
    struct {                                                                                                                   \
        type *data;                                                                                                            \
        size_t count, capacity;                                                                                                \
    }

/* Room for at least wanted elements in all. False: out of memory, unchanged. */
#define tsr_vec_reserve(vec, wanted)                                                                                           \
    ((wanted) <= (vec)->capacity || tsr_vec_grow((void **)&(vec)->data, &(vec)->capacity, (wanted), sizeof *(vec)->data))
#define tsr_vec_push(vec, ...)                                                                                                 \
    (tsr_vec_reserve((vec), (vec)->count + 1) ? ((vec)->data[(vec)->count++] = (__VA_ARGS__), true) : false)
/* Removes and gives the last element; the array must not be empty. */
#define tsr_vec_pop(vec) ((vec)->data[--(vec)->count])
/* Removes element index by putting the last one in its place. */
#define tsr_vec_remove_swap(vec, index) ((void)((vec)->data[(index)] = (vec)->data[(vec)->count - 1], (vec)->count--))
#define tsr_vec_clear(vec) ((void)((vec)->count = 0))
#define tsr_vec_fini(vec) (free((vec)->data), (vec)->data = NULL, (vec)->count = (vec)->capacity = 0, (void)0)

bool tsr_vec_grow(void **data, size_t *capacity, size_t wanted, size_t element_bytes);

#endif
