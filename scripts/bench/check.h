/* A call that must succeed, in the programs that are timed. */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                            \
    do {                                                                                                                       \
        int result_ = (int)(call);                                                                                             \
        if (result_) {                                                                                                         \
            fprintf(stderr, "%s gave %d\n", #call, result_);                                                                   \
            exit(2);                                                                                                           \
        }                                                                                                                      \
    } while (0)

#endif
