/*
 * How long launches of a class take on each GPU. A class is a function with a shape (grid, block, dynamic shared memory) and about so many bytes
 * that it touches: matrix products of one grid differ in their depth.
 *
 * Some launches are samples: the first ones of a class on a GPU, and then ever rarer ones; somebody measures them (record/timing.h) and reports.
 * Of what was never measured there is an estimate: from the class on another GPU and how the GPUs' times compare; else from the function's
 * other classes, by their threads; else from the bytes that the launch touches.
 *
 * Any number of threads look up and ask; one at a time reports. No locks, and no memory but what is given. Counts are evidence, not accounts: what two
 * threads count at once may be lost. With TSR_CLASSES classes no more are remembered: launches of others are estimated by their function.
 */
#ifndef TSR_SCHEDULE_CLASSES_H
#define TSR_SCHEDULE_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/gpus.h>

#define TSR_CLASSES 8192u /* a power of two */
#define TSR_CLASS_PROBES 16u

struct tsr_class {
    uint64_t key;                                   /* atomic; 0: free */
    uint32_t threads;                               /* of its grid, at most 2^32 - 1; its first launch's */
    uint32_t launches[TSR_GPUS];                    /* relaxed */
    uint32_t samples[TSR_GPUS];                     /* relaxed */
    uint32_t owed[TSR_GPUS];                        /* relaxed; samples for which it was not the time */
    bool came[TSR_GPUS];                            /* relaxed; of a function as a whole: it was launched there */
    float ns[TSR_GPUS];                             /* relaxed */
    uint32_t longer[TSR_GPUS];                      /* relaxed; samples in a row that took longer than what was known */
    uint32_t given, pulled;                         /* relaxed; launches lately, and those whose results another GPU pulled */
    float before_ns[TSR_GPUS], longer_ns[TSR_GPUS]; /* relaxed; where there are some: that, and the shortest of them */
};

struct tsr_classes {
    float
        speed[TSR_GPUS]; /* relaxed; times on the GPU over those on the first that has one, of the same classes; 0: not known */
    float guess[TSR_GPUS];                 /* constant; the same, before any was measured; 0: alike */
    uint32_t used;                         /* atomic */
    struct tsr_class entries[TSR_CLASSES]; /* of shapes, and of functions as a whole */
};

struct tsr_class_of {
    struct tsr_class *shape;    /* NULL: there is no room */
    struct tsr_class *function; /* the same */
    uint32_t threads;
};

/* Of a launch. function: what stands for it, not 0. bytes: that it touches; 0: not known. */
struct tsr_class_of tsr_class_find(struct tsr_classes *classes, uint64_t function, const uint32_t grid[3],
                                   const uint32_t block[3], uint32_t shared_bytes, uint64_t bytes);

/*
 * Counts a launch on the GPU. Whether it is to be a sample, which a function's first launch there never is. rarest: one of so many is at least; a
 * power of two.
 */
bool tsr_class_is_due(const struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpu, uint32_t rarest);
/* It was to be one, but too many were under way: a later one is, instead. */
void tsr_class_owe(const struct tsr_class_of *of, uint32_t gpu);

/* A launch is given to a GPU; another GPU pulls what one has written. */
void tsr_class_given(const struct tsr_class_of *of);
void tsr_class_pulled(struct tsr_class *shape);
/* Whether results of many of the launches are pulled. */
bool tsr_class_is_pulled(const struct tsr_class_of *of);

/* Whether any of the shape was measured, on any GPU. */
bool tsr_class_is_measured(const struct tsr_class_of *of);

/* What a launch that touches so many bytes takes on each GPU, times the pace. */
void tsr_class_times(const struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpus, uint64_t bytes,
                     double pace, double *ns);

/* A launch took at most that: what else ran beside it made it longer. One thread at a time. */
void tsr_class_bound(struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpu, double ns);

/* What a sample took. One thread at a time. */
void tsr_class_report(struct tsr_classes *classes, const struct tsr_class_of *of, uint32_t gpu, double ns);

#endif
