/*
 * What a graph touches as a whole, against memory: a graph runs on a copy that holds only the bytes that are said to be read, and must leave there, in
 * the bytes that are said to be written, what it leaves in memory that is complete.
 */
#include "check.h"

#include <stdlib.h>

#include "graph/union.c"

#define BYTES 96u
#define MOST_NODES 12u
#define MOST_TOUCHES 6u
#define GRAPHS 20000u

struct node {
    uint32_t count;
    struct tsr_touch touches[MOST_TOUCHES];
};

struct graph {
    uint32_t count, edge_count;
    struct tsr_lane_edge edges[MOST_NODES * MOST_NODES];
    struct node nodes[MOST_NODES];
    bool chain;
};

static unsigned short seed[3] = {7, 19, 1};

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(nrand48(seed) % below);
}

static struct tsr_touch draw_touch(void)
{
    uint64_t first = draw(BYTES), bytes = 1 + draw(draw(2) ? 8 : (uint32_t)(BYTES - first));
    struct tsr_touch touch = {.first = first, .end = first + bytes < BYTES ? first + bytes : BYTES};
    switch (draw(4)) {
    case 0:
        touch.pulls = true;
        break;
    case 1:
        touch.pulls = touch.writes = true;
        break;
    case 2:
        touch.writes = true;
        touch.stride = 2 + draw(6);
        touch.width = 1 + draw((uint32_t)touch.stride - 1);
        break;
    default:
        touch.writes = true;
    }
    return touch;
}

/* Nodes are told in any order, whatever their edges. */
static void draw_graph(struct graph *graph)
{
    uint32_t order[MOST_NODES];
    *graph = (struct graph){.count = 1 + draw(MOST_NODES), .chain = draw(3) == 0};
    for (uint32_t i = 0; i < graph->count; i++) {
        uint32_t at = draw(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t to = 1; to < graph->count; to++)
        for (uint32_t from = 0; from < to; from++)
            if (graph->chain ? from + 1 == to : draw(4) == 0)
                graph->edges[graph->edge_count++] = (struct tsr_lane_edge){.from = order[from], .to = order[to]};
    for (uint32_t i = 0; i < graph->count; i++) {
        graph->nodes[i].count = draw(MOST_TOUCHES + 1);
        for (uint32_t n = 0; n < graph->nodes[i].count; n++)
            graph->nodes[i].touches[n] = draw_touch();
    }
}

static bool is_in(const struct tsr_touch *touch, uint64_t byte)
{
    bool between = byte >= touch->first && byte < touch->end;
    return between && (!touch->stride || (byte - touch->first) % touch->stride < touch->width);
}

/* A node reads all that it may, and writes what it must, and a part of what it only may. */
static void run_node(const struct node *node, uint32_t number, uint64_t choices, uint32_t memory[BYTES])
{
    uint32_t read = number;
    for (uint32_t i = 0; i < node->count; i++)
        for (uint64_t byte = 0; byte < BYTES && node->touches[i].pulls; byte++)
            if (is_in(&node->touches[i], byte))
                read = read * 1664525 + memory[byte] + 1;
    for (uint32_t i = 0; i < node->count; i++)
        for (uint64_t byte = 0; byte < BYTES && node->touches[i].writes; byte++)
            if (is_in(&node->touches[i], byte) && (!node->touches[i].pulls || choices >> (byte + i) % 64 & 1))
                memory[byte] = read * 22695477 + (uint32_t)byte;
}

/* The nodes in an order that the edges allow, drawn at random. */
static void run(const struct graph *graph, const unsigned short from[3], uint32_t memory[BYTES])
{
    unsigned short kept[3];
    bool done[MOST_NODES] = {0};
    memcpy(kept, seed, sizeof kept);
    memcpy(seed, from, sizeof kept);
    for (uint32_t left = graph->count; left > 0;) {
        uint32_t node = draw(graph->count);
        bool ready = !done[node];
        for (uint32_t i = 0; i < graph->edge_count; i++)
            ready = ready && (graph->edges[i].to != node || done[graph->edges[i].from]);
        if (!ready)
            continue;
        run_node(&graph->nodes[node], node, (uint64_t)draw(1u << 30) << 30 | draw(1u << 30), memory);
        done[node] = true;
        left--;
    }
    memcpy(seed, kept, sizeof kept);
}

static bool find_touches(const struct graph *graph, tsr_union_touches *out)
{
    struct tsr_precedence precedence;
    bool valid = tsr_precedence_init(&precedence, graph->count, graph->edges, graph->edge_count);
    struct tsr_union all = {.precedence = &precedence};
    for (uint32_t i = 0; valid && i < graph->count; i++) {
        const struct node *node = &graph->nodes[precedence.order[i]];
        valid = tsr_union_add(&all, precedence.order[i], node->touches, node->count);
    }
    valid = valid && tsr_union_touches_of(&all, out);
    tsr_union_fini(&all);
    tsr_precedence_fini(&precedence);
    return valid;
}

static const struct tsr_touch *touch_of(const tsr_union_touches *touches, uint64_t byte)
{
    for (size_t i = 0; i < touches->count; i++)
        if (is_in(&touches->data[i], byte))
            return &touches->data[i];
    return NULL;
}

static bool is_sorted(const tsr_union_touches *touches)
{
    for (size_t i = 0; i < touches->count; i++)
        if (touches->data[i].first >= touches->data[i].end || touches->data[i].stride ||
            (i && touches->data[i - 1].end > touches->data[i].first))
            return false;
    return true;
}

TEST(a_graph_runs_on_a_copy_with_what_it_reads)
{
    for (uint32_t n = 0, last = check_steps(GRAPHS); n < last && !check_failures; n++) {
        struct graph graph;
        tsr_union_touches touches = {0};
        uint32_t whole[BYTES], copy[BYTES];
        draw_graph(&graph);
        REQUIRE(find_touches(&graph, &touches) && is_sorted(&touches));
        for (uint64_t byte = 0; byte < BYTES; byte++) {
            const struct tsr_touch *touch = touch_of(&touches, byte);
            whole[byte] = draw(1u << 30);
            copy[byte] = touch && touch->pulls ? whole[byte] : ~whole[byte];
        }
        uint32_t before[BYTES];
        unsigned short order[3] = {(unsigned short)draw(65536), (unsigned short)draw(65536), 3};
        memcpy(before, whole, sizeof before);
        run(&graph, order, whole);
        run(&graph, order, copy);
        for (uint64_t byte = 0; byte < BYTES; byte++) {
            const struct tsr_touch *touch = touch_of(&touches, byte);
            CHECK(touch && touch->writes ? copy[byte] == whole[byte] : whole[byte] == before[byte]);
        }
        tsr_vec_fini(&touches);
    }
}

/* Whether the byte is read before it is surely overwritten, where nodes are in one row. */
static bool is_read(const struct graph *graph, const struct tsr_precedence *precedence, uint64_t byte)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct node *node = &graph->nodes[precedence->order[i]];
        bool overwritten = false;
        for (uint32_t n = 0; n < node->count; n++)
            if (is_in(&node->touches[n], byte)) {
                if (node->touches[n].pulls)
                    return true;
                overwritten = true;
            }
        if (overwritten)
            return false;
    }
    return false;
}

TEST(a_chain_reads_no_more_than_it_needs)
{
    for (uint32_t n = 0, last = check_steps(GRAPHS / 4); n < last && !check_failures; n++) {
        struct graph graph;
        struct tsr_precedence precedence;
        tsr_union_touches touches = {0};
        do
            draw_graph(&graph);
        while (!graph.chain);
        REQUIRE(tsr_precedence_init(&precedence, graph.count, graph.edges, graph.edge_count));
        REQUIRE(precedence.chain && find_touches(&graph, &touches));
        for (uint64_t byte = 0; byte < BYTES; byte++) {
            const struct tsr_touch *touch = touch_of(&touches, byte);
            CHECK((touch && touch->pulls) == is_read(&graph, &precedence, byte));
        }
        tsr_precedence_fini(&precedence);
        tsr_vec_fini(&touches);
    }
}

TEST(nodes_beside_each_other_are_not_earlier)
{
    struct tsr_lane_edge fork[] = {{0, 1}, {0, 2}};
    struct tsr_touch writes = {.first = 0, .end = 8, .writes = true}, reads = {.first = 0, .end = 8, .pulls = true};
    struct graph graph = {.count = 3, .edge_count = 2, .edges = {fork[0], fork[1]}};
    tsr_union_touches touches = {0};
    graph.nodes[1] = (struct node){.count = 1, .touches = {writes}};
    graph.nodes[2] = (struct node){.count = 1, .touches = {reads}};
    REQUIRE(find_touches(&graph, &touches));
    REQUIRE(touches.count == 1);
    CHECK(touches.data[0].pulls && touches.data[0].writes);
    tsr_vec_fini(&touches);
}

/* As a concatenation along an inner dimension does, in two launches. */
TEST(many_pieces_of_two_nodes_overwrite_all)
{
    const uint64_t stride = 64, pieces = 1000, bytes = stride * pieces;
    struct tsr_touch low = {.first = 0, .end = bytes, .writes = true, .stride = stride, .width = 40};
    struct tsr_touch high = {.first = 40, .end = bytes, .writes = true, .stride = stride, .width = 24};
    struct tsr_touch reads = {.first = 0, .end = bytes, .pulls = true};
    struct graph graph = {.count = 3, .edge_count = 2, .edges = {{0, 1}, {1, 2}}};
    tsr_union_touches touches = {0};
    graph.nodes[0] = (struct node){.count = 1, .touches = {low}};
    graph.nodes[1] = (struct node){.count = 1, .touches = {high}};
    graph.nodes[2] = (struct node){.count = 1, .touches = {reads}};
    REQUIRE(find_touches(&graph, &touches));
    REQUIRE(touches.count == 1);
    CHECK(touches.data[0].writes && !touches.data[0].pulls);
    CHECK_EQ(touches.data[0].end, bytes);
    tsr_vec_fini(&touches);
}

TEST(a_circle_is_no_graph)
{
    struct tsr_lane_edge circle[] = {{0, 1}, {1, 2}, {2, 1}};
    struct tsr_precedence precedence;
    CHECK(!tsr_precedence_init(&precedence, 3, circle, 3));
    tsr_precedence_fini(&precedence);
    CHECK(!tsr_precedence_init(&precedence, 2, circle, 3)); /* a place that there is not */
    tsr_precedence_fini(&precedence);
    CHECK(tsr_precedence_init(&precedence, 0, NULL, 0));
    tsr_precedence_fini(&precedence);
}

TEST(long_chains_have_room_where_many_branches_have_not)
{
    enum { NODES = 20000 };
    struct tsr_lane_edge *edges = calloc(NODES, sizeof *edges);
    struct tsr_precedence precedence;
    for (uint32_t i = 0; i + 1 < NODES; i++)
        edges[i] = (struct tsr_lane_edge){.from = NODES - 1 - i, .to = NODES - 2 - i};
    CHECK(tsr_precedence_init(&precedence, NODES, edges, NODES - 1));
    CHECK(tsr_precedes(&precedence, NODES - 1, 0) && !tsr_precedes(&precedence, 0, NODES - 1));
    tsr_precedence_fini(&precedence);
    CHECK(!tsr_precedence_init(&precedence, NODES, edges, NODES - 2));
    tsr_precedence_fini(&precedence);
    free(edges);
}
