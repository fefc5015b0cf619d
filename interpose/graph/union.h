/*
 * What a graph touches as a whole, from what its nodes touch: what it may read that no earlier node of it must overwrite, what it may write, and
 * what it must overwrite. A node is earlier than another if a path of edges leads from it to that. Pure: no driver, no locks.
 *
 * Bytes that a node only may write are pulled as well, as in a launch, unless an earlier node overwrites them.
 */
#ifndef TSR_GRAPH_UNION_H
#define TSR_GRAPH_UNION_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "base/vec.h"
#include "memory/copies.h"

/* The order of a graph's nodes. */
struct tsr_precedence {
    uint32_t count;
    bool chain;       /* each node is followed by the next one in the order */
    uint32_t *order;  /* the nodes, earlier ones first */
    uint32_t *rank;   /* by node: its place there */
    uint32_t words;   /* of a row of `before` */
    uint64_t *before; /* by rank, unless it is a chain: set of the ranks that come before it */
};

/* False: no memory, a cycle, or too many nodes that are no chain. To be freed with fini in any case. */
bool tsr_precedence_init(struct tsr_precedence *precedence, uint32_t count, const struct tsr_lane_edge *edges,
                         uint32_t edge_count);
void tsr_precedence_fini(struct tsr_precedence *precedence);
bool tsr_precedes(const struct tsr_precedence *precedence, uint32_t earlier, uint32_t later);

struct tsr_union_cell;
typedef TSR_VEC(struct tsr_union_cell) tsr_union_cells;

/* Zero bytes with `precedence` set: nothing is touched. */
struct tsr_union {
    const struct tsr_precedence *precedence;
    tsr_union_cells cells;
};

/* Adds a node's touches. Nodes come in the order of the precedence, each once. False: no memory, or too many pieces. */
bool tsr_union_add(struct tsr_union *all, uint32_t node, const struct tsr_touch *touches, uint32_t count);

typedef TSR_VEC(struct tsr_touch) tsr_union_touches;
/* The graph's touches: they do not overlap, and are sorted. False: no memory. */
bool tsr_union_touches_of(const struct tsr_union *all, tsr_union_touches *out);
void tsr_union_fini(struct tsr_union *all);

#endif
