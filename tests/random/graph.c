/* Graphs, captured from streams or built node by node: launched often, changed, dropped while they run. Their work is in a few slots. */
#include <stdlib.h>

#include "program.h"

#define STEPS 4u

enum step_kind { STEP_MIX, STEP_SET, STEP_COPY, STEP_KINDS };

struct step {
    enum step_kind kind;
    uint32_t to, from, to_generation, from_generation; /* slots */
    uint32_t words, salt, kernel;
    CUgraphNode node; /* of a graph that was built */
};

struct graph {
    CUgraph graph;
    CUgraphExec exec;
    bool built;
    uint32_t count;
    struct step steps[STEPS];
};

static struct slot *slot_at(const struct worker *worker, uint32_t number)
{
    return &worker->program->slots[number];
}

static bool still_there(const struct worker *worker, const struct graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct step *step = &graph->steps[i];
        if (!owns(worker, step->to, OWN_SLOTS) || !owns(worker, step->from, OWN_SLOTS) || !slot_at(worker, step->to)->kind ||
            !slot_at(worker, step->from)->kind || slot_at(worker, step->to)->generation != step->to_generation ||
            slot_at(worker, step->from)->generation != step->from_generation)
            return false;
    }
    return true;
}

static struct graph *draw_graph(struct worker *worker, struct draw *from)
{
    struct graph *graph = calloc(1, sizeof *graph);
    for (uint32_t wanted = 1 + draw(from, STEPS); graph && graph->count < wanted;) {
        const struct slot *to = pick_slot(worker, from, FOR_KERNELS, NULL), *source = pick_slot(worker, from, FOR_KERNELS, to);
        if (!to || !source)
            break;
        graph->steps[graph->count++] = (struct step){
            .kind = one_in(from, 2) ? STEP_MIX : (enum step_kind)draw(from, STEP_KINDS),
            .to = slot_number(worker, to),
            .from = slot_number(worker, source),
            .to_generation = to->generation,
            .from_generation = source->generation,
            .words = to->words < source->words ? to->words : source->words,
            .salt = draw(from, 1u << 30),
            .kernel = MIX_A + draw(from, 3),
        };
    }
    /* Making a slot may have replaced nothing, but an earlier step's slot must still be what it was. */
    if (graph && (graph->count == 0 || !still_there(worker, graph))) {
        free(graph);
        return NULL;
    }
    return graph;
}

static bool conflict(const struct step *one, const struct step *other)
{
    return one->to == other->to || one->to == other->from || one->from == other->to;
}

struct arguments {
    CUdeviceptr to, from;
    uint32_t words, salt, spin;
    void *pointers[5];
};

static void **arguments_of(const struct worker *worker, const struct step *step, struct arguments *arguments)
{
    *arguments = (struct arguments){
        .to = window(slot_at(worker, step->to)),
        .from = window(slot_at(worker, step->from)),
        .words = step->words,
        .salt = step->salt,
        .pointers = {&arguments->to, &arguments->from, &arguments->words, &arguments->salt, &arguments->spin}};
    return arguments->pointers;
}

static bool capture_step(struct worker *worker, const struct step *step, CUstream stream)
{
    struct arguments arguments;
    void **parameters = arguments_of(worker, step, &arguments);
    CUfunction function = kernel_of(worker->program, 0, step->kernel);
    switch (step->kind) {
    case STEP_MIX:
        return CU(cuLaunchKernel(function, (step->words + 63) / 64, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
    case STEP_SET:
        return CU(cuMemsetD32Async(arguments.to, step->salt, step->words, stream));
    default:
        return CU(cuMemcpyAsync(arguments.to, arguments.from, 4 * step->words, stream));
    }
}

static void fork_to(struct worker *worker, CUstream from, CUstream to, CUevent event)
{
    CU(cuEventRecord(event, from));
    CU(cuStreamWaitEvent(to, event, 0));
}

/* One step of them goes by a second stream, next to those that do not touch the same slots. */
static void capture_steps(struct worker *worker, const struct graph *graph, CUstream stream, CUstream side, uint32_t sided,
                          CUevent event)
{
    bool apart = false;
    for (uint32_t i = 0; i < graph->count; i++) {
        if (apart && conflict(&graph->steps[i], &graph->steps[sided])) {
            fork_to(worker, side, stream, event);
            apart = false;
        }
        if (i == sided) {
            fork_to(worker, stream, side, event);
            apart = true;
        }
        capture_step(worker, &graph->steps[i], i == sided ? side : stream);
    }
    if (apart)
        fork_to(worker, side, stream, event);
}

static void drop(struct worker *worker, struct graph *graph)
{
    if (graph && graph->exec)
        CU(cuGraphExecDestroy(graph->exec));
    if (graph && graph->graph)
        CU(cuGraphDestroy(graph->graph));
    free(graph);
}

static void keep(struct worker *worker, struct graph *graph, struct draw *from)
{
    struct graph **place = &worker->graphs[draw(from, GRAPHS)];
    if (!CU(cuGraphInstantiate(&graph->exec, graph->graph, 0))) {
        drop(worker, graph);
        return;
    }
    drop(worker, *place);
    *place = graph;
    say(worker, "graph of %u steps", graph->count);
    for (uint32_t i = 0; i < graph->count; i++)
        say(worker, "    %s: slot %u from slot %u", (const char *[]){"mix", "set", "copy"}[graph->steps[i].kind],
            graph->steps[i].to, graph->steps[i].from);
}

void op_capture(struct worker *worker, struct draw *from)
{
    struct graph *graph = uses(worker->program, FEATURE_graphs) ? draw_graph(worker, from) : NULL;
    if (!graph)
        return;
    CUstream stream = stream_of(worker, FREE_A), side = stream_of(worker, FREE_B);
    CUevent event = NULL;
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    lock_captures(true);
    if (CU(cuStreamBeginCapture(stream,
                                one_in(from, 2) ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED))) {
        capture_steps(worker, graph, stream, side, draw(from, 2 * STEPS), event);
        CU(cuStreamEndCapture(stream, &graph->graph));
    }
    unlock_captures();
    CU(cuEventDestroy(event));
    keep(worker, graph, from);
}

static CUDA_KERNEL_NODE_PARAMS kernel_node(const struct worker *worker, const struct step *step, struct arguments *arguments)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = kernel_of(worker->program, 0, step->kernel),
                                     .gridDimX = (step->words + 63) / 64,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 64,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = arguments_of(worker, step, arguments)};
}

static bool add_node(struct worker *worker, struct graph *graph, struct step *step, const CUgraphNode *before, size_t count)
{
    struct arguments arguments;
    CUDA_KERNEL_NODE_PARAMS kernel = kernel_node(worker, step, &arguments);
    CUcontext context = worker->program->contexts[0];
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = arguments.to, .value = step->salt, .elementSize = 4, .width = step->words, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = arguments.from,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = arguments.to,
                          .WidthInBytes = 4 * step->words,
                          .Height = 1,
                          .Depth = 1};
    switch (step->kind) {
    case STEP_MIX:
        return CU(cuGraphAddKernelNode(&step->node, graph->graph, before, count, &kernel));
    case STEP_SET:
        return CU(cuGraphAddMemsetNode(&step->node, graph->graph, before, count, &set, context));
    default:
        return CU(cuGraphAddMemcpyNode(&step->node, graph->graph, before, count, &copy, context));
    }
}

void op_build(struct worker *worker, struct draw *from)
{
    struct graph *graph = uses(worker->program, FEATURE_graphs) ? draw_graph(worker, from) : NULL;
    if (!graph)
        return;
    graph->built = CU(cuGraphCreate(&graph->graph, 0));
    for (uint32_t i = 0; i < graph->count && graph->built; i++) {
        CUgraphNode before[STEPS];
        size_t count = 0;
        for (uint32_t k = 0; k < i; k++)
            if (conflict(&graph->steps[k], &graph->steps[i]) || one_in(from, 3))
                before[count++] = graph->steps[k].node;
        graph->built = add_node(worker, graph, &graph->steps[i], before, count);
    }
    keep(worker, graph, from);
}

static struct graph *pick_graph(struct worker *worker, struct draw *from, uint32_t *place)
{
    *place = draw(from, GRAPHS);
    if (!worker->graphs[*place])
        *place = (*place + 1) % GRAPHS;
    return uses(worker->program, FEATURE_graphs) ? worker->graphs[*place] : NULL;
}

void op_graph_launch(struct worker *worker, struct draw *from)
{
    uint32_t place, stream = draw_stream(worker, from);
    struct graph *graph = pick_graph(worker, from, &place);
    if (!graph || !still_there(worker, graph))
        return;
    say(worker, "launch graph %u, %s", place, stream_name(stream));
    for (uint32_t i = 0; i < graph->count; i++) {
        order(worker, &slot_at(worker, graph->steps[i].from)->sync, stream, false, from);
        order(worker, &slot_at(worker, graph->steps[i].to)->sync, stream, true, from);
    }
    for (uint32_t i = 1 + draw(from, 2); i > 0; i--)
        CU(cuGraphLaunch(graph->exec, stream_of(worker, stream)));
}

/* New numbers for a kernel: in what was instantiated, or in the graph and from there. */
void op_graph_change(struct worker *worker, struct draw *from)
{
    uint32_t place, at;
    struct graph *graph = pick_graph(worker, from, &place);
    if (!graph || !graph->built || !still_there(worker, graph))
        return;
    struct step *step = &graph->steps[at = draw(from, graph->count)];
    if (step->kind != STEP_MIX)
        return;
    step->salt = draw(from, 1u << 30);
    struct arguments arguments;
    CUDA_KERNEL_NODE_PARAMS kernel = kernel_node(worker, step, &arguments);
    CUgraphExecUpdateResultInfo info;
    say(worker, "change step %u of graph %u", at, place);
    CU(cuGraphKernelNodeSetParams(step->node, &kernel)); /* so that later updates keep it */
    if (one_in(from, 2))
        CU(cuGraphExecKernelNodeSetParams(graph->exec, step->node, &kernel));
    else
        CU(cuGraphExecUpdate(graph->exec, graph->graph, &info));
}

void op_graph_drop(struct worker *worker, struct draw *from)
{
    uint32_t place;
    struct graph *graph = pick_graph(worker, from, &place);
    if (!graph)
        return;
    say(worker, "drop graph %u", place);
    drop(worker, graph);
    worker->graphs[place] = NULL;
}

void graphs_end(struct worker *worker)
{
    for (uint32_t i = 0; i < GRAPHS; i++) {
        drop(worker, worker->graphs[i]);
        worker->graphs[i] = NULL;
    }
}
