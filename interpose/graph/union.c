/* See union.h. Cells are a sorted array of intervals that do not overlap; a touch cuts those at its ends. */
#include "graph/union.h"

#include <string.h>

#define MOST_RELATED 4096u /* nodes of a graph that is no chain */
#define MOST_CELLS 65536u
#define MOST_PIECES 4096u /* of a touch with a stride that are told from each other, while no more than half of all cells are used */
#define NOBODY UINT32_MAX

struct tsr_union_cell {
    uint64_t first, end;
    bool pulls, writes;
    uint32_t overwrites; /* the first node that must overwrite it; NOBODY */
};

/* ---- which nodes come before which ---- */

static bool sort(struct tsr_precedence *out, const struct tsr_lane_edge *edges, uint32_t edge_count)
{
    uint32_t *waits = calloc(out->count + 1, sizeof *waits), *begins = calloc(out->count + 2, sizeof *begins);
    uint32_t *next = calloc(edge_count + 1, sizeof *next), done = 0, found = 0;
    bool valid = waits && begins && next;
    for (uint32_t i = 0; valid && i < edge_count; i++) {
        valid = edges[i].from < out->count && edges[i].to < out->count;
        if (valid) {
            waits[edges[i].to]++;
            begins[edges[i].from + 2]++;
        }
    }
    for (uint32_t i = 2; valid && i < out->count + 2; i++)
        begins[i] += begins[i - 1];
    for (uint32_t i = 0; valid && i < edge_count; i++) /* afterwards begins[n] .. begins[n + 1] are n's */
        next[begins[edges[i].from + 1]++] = edges[i].to;
    for (uint32_t i = 0; valid && i < out->count; i++)
        if (!waits[i])
            out->order[found++] = i;
    for (; valid && done < found; done++) {
        uint32_t node = out->order[done];
        out->rank[node] = done;
        for (uint32_t i = begins[node]; i < begins[node + 1]; i++)
            if (--waits[next[i]] == 0)
                out->order[found++] = next[i];
    }
    free(waits);
    free(begins);
    free(next);
    return valid && found == out->count;
}

static bool is_chain(const struct tsr_precedence *precedence, const struct tsr_lane_edge *edges, uint32_t edge_count)
{
    uint32_t steps = 0;
    uint8_t *seen = calloc(precedence->count + 1, 1); /* an edge may be listed twice */
    for (uint32_t i = 0; seen && i < edge_count; i++) {
        uint32_t rank = precedence->rank[edges[i].from];
        if (precedence->rank[edges[i].to] == rank + 1 && !seen[rank]) {
            seen[rank] = 1;
            steps++;
        }
    }
    free(seen);
    return steps + 1 >= precedence->count;
}

static bool relate(struct tsr_precedence *out, const struct tsr_lane_edge *edges, uint32_t edge_count)
{
    out->words = out->count / 64 + 1;
    out->before = out->count <= MOST_RELATED ? calloc((size_t)out->count * out->words, sizeof *out->before) : NULL;
    uint32_t *begins = calloc(out->count + 2, sizeof *begins), *from = calloc(edge_count + 1, sizeof *from);
    bool valid = out->before && begins && from;
    for (uint32_t i = 0; valid && i < edge_count; i++)
        begins[out->rank[edges[i].to] + 2]++;
    for (uint32_t i = 2; valid && i < out->count + 2; i++)
        begins[i] += begins[i - 1];
    for (uint32_t i = 0; valid && i < edge_count; i++)
        from[begins[out->rank[edges[i].to] + 1]++] = out->rank[edges[i].from];
    for (uint32_t rank = 0; valid && rank < out->count; rank++)
        for (uint32_t i = begins[rank]; i < begins[rank + 1]; i++) {
            uint64_t *row = &out->before[(size_t)rank * out->words], *other = &out->before[(size_t)from[i] * out->words];
            for (uint32_t word = 0; word < out->words; word++)
                row[word] |= other[word];
            row[from[i] / 64] |= 1ull << from[i] % 64;
        }
    free(begins);
    free(from);
    return valid;
}

bool tsr_precedence_init(struct tsr_precedence *precedence, uint32_t count, const struct tsr_lane_edge *edges,
                         uint32_t edge_count)
{
    *precedence = (struct tsr_precedence){.count = count};
    precedence->order = calloc(count + 1, sizeof *precedence->order);
    precedence->rank = calloc(count + 1, sizeof *precedence->rank);
    if (!precedence->order || !precedence->rank || !sort(precedence, edges, edge_count))
        return false;
    precedence->chain = is_chain(precedence, edges, edge_count);
    return precedence->chain || relate(precedence, edges, edge_count);
}

void tsr_precedence_fini(struct tsr_precedence *precedence)
{
    free(precedence->order);
    free(precedence->rank);
    free(precedence->before);
    *precedence = (struct tsr_precedence){0};
}

bool tsr_precedes(const struct tsr_precedence *precedence, uint32_t earlier, uint32_t later)
{
    uint32_t first = precedence->rank[earlier], second = precedence->rank[later];
    if (precedence->chain)
        return first < second;
    return precedence->before[(size_t)second * precedence->words + first / 64] >> (first % 64) & 1;
}

/* ---- what is touched ---- */

/* Index of the first cell that ends above the address. */
static size_t find(const tsr_union_cells *cells, uint64_t address)
{
    size_t low = 0, high = cells->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cells->data[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(tsr_union_cells *cells, size_t at, struct tsr_union_cell cell)
{
    if (cells->count == MOST_CELLS || !tsr_vec_reserve(cells, cells->count + 1))
        return false;
    memmove(&cells->data[at + 1], &cells->data[at], (cells->count - at) * sizeof cell);
    cells->data[at] = cell;
    cells->count++;
    return true;
}

/* No cell reaches across the address afterwards. */
static bool cut(tsr_union_cells *cells, uint64_t address)
{
    size_t at = find(cells, address);
    if (at == cells->count || cells->data[at].first >= address)
        return true;
    struct tsr_union_cell low = cells->data[at];
    low.end = address;
    if (!insert(cells, at, low))
        return false;
    cells->data[at + 1].first = address;
    return true;
}

/* Cells from `first` to `end` without a gap. */
static bool fill(tsr_union_cells *cells, uint64_t first, uint64_t end)
{
    for (size_t at = find(cells, first); first < end; at++) {
        uint64_t next = at < cells->count && cells->data[at].first < end ? cells->data[at].first : end;
        if (first < next && !insert(cells, at, (struct tsr_union_cell){.first = first, .end = next, .overwrites = NOBODY}))
            return false;
        first = cells->data[at].end;
    }
    return true;
}

static bool add(struct tsr_union *all, uint32_t node, struct tsr_touch touch)
{
    tsr_union_cells *cells = &all->cells;
    if (touch.first >= touch.end)
        return true;
    if (!cut(cells, touch.first) || !cut(cells, touch.end) || !fill(cells, touch.first, touch.end))
        return false;
    for (size_t at = find(cells, touch.first); at < cells->count && cells->data[at].first < touch.end; at++) {
        struct tsr_union_cell *cell = &cells->data[at];
        bool fresh = cell->overwrites != NOBODY && tsr_precedes(all->precedence, cell->overwrites, node);
        cell->pulls |= touch.pulls && !fresh;
        cell->writes |= touch.writes;
        if (touch.writes && !touch.pulls && cell->overwrites == NOBODY)
            cell->overwrites = node;
    }
    return true;
}

/* One that only overwrites pieces at a stride: each of them, or, of many, all from the first to the last, as bytes that it may write. */
static bool add_pieces(struct tsr_union *all, uint32_t node, const struct tsr_touch *touch)
{
    uint64_t pieces = (touch->end - touch->first + touch->stride - 1) / touch->stride;
    struct tsr_touch piece = {.first = touch->first, .end = touch->end, .pulls = true, .writes = true};
    if (pieces > MOST_PIECES || all->cells.count + 2 * pieces > MOST_CELLS / 2)
        return add(all, node, piece);
    piece.pulls = false;
    bool added = true;
    for (uint64_t at = touch->first; at < touch->end && added; at += touch->stride) {
        piece.first = at;
        piece.end = at + touch->width < touch->end ? at + touch->width : touch->end;
        added = add(all, node, piece);
    }
    return added;
}

/* What it reads first: a node may overwrite what it has read. */
bool tsr_union_add(struct tsr_union *all, uint32_t node, const struct tsr_touch *touches, uint32_t count)
{
    for (int pulling = 1; pulling >= 0; pulling--)
        for (uint32_t i = 0; i < count; i++) {
            const struct tsr_touch *touch = &touches[i];
            if (touch->pulls != pulling)
                continue;
            bool added = touch->stride && !touch->pulls ? add_pieces(all, node, touch) : add(all, node, *touch);
            if (!added)
                return false;
        }
    return true;
}

bool tsr_union_touches_of(const struct tsr_union *all, tsr_union_touches *out)
{
    for (size_t i = 0; i < all->cells.count; i++) {
        const struct tsr_union_cell *cell = &all->cells.data[i];
        struct tsr_touch *last = out->count ? &out->data[out->count - 1] : NULL;
        if (last && last->end == cell->first && last->pulls == cell->pulls && last->writes == cell->writes)
            last->end = cell->end;
        else if (!tsr_vec_push(out, (struct tsr_touch){
                                        .first = cell->first, .end = cell->end, .pulls = cell->pulls, .writes = cell->writes}))
            return false;
    }
    return true;
}

void tsr_union_fini(struct tsr_union *all)
{
    tsr_vec_fini(&all->cells);
}
