/*
 * Operands of cuDNN's graph API. A variant pack has addresses by tensor number; what the tensors are, the plan's operation graph says, which
 * the application built out of descriptors before. So their attributes are remembered as they are set, with what refers to what:
 * execution plan -> engine configuration -> engine, or the heuristic that gave it -> operation graph -> operations -> tensors.
 * A tensor that is not found that way may be as large as its allocation.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "calls/entries.h"
#include "calls/types.h"

#define DEPTH 16u /* of references: there are seven in a plan */
#define MOST_TENSORS 512u

struct link {
    struct descriptor *to;
    int32_t attribute; /* as which it was set; of an operation, what it does with the tensor */
};

struct tensor {
    uint32_t axes, stride_axes;
    uint64_t dims[TSR_BOX_AXES], strides[TSR_BOX_AXES]; /* strides in elements */
    int64_t number, vector;
    int32_t type;
    bool is_tensor, by_value, other_layout; /* other_layout: its elements are not where the strides say */
};

struct descriptor {
    uint32_t references;
    bool is_known_pack;
    TSR_VEC(struct link) links;
    struct tensor tensor;
    TSR_VEC(int64_t) numbers;    /* of a variant pack */
    TSR_VEC(uint64_t) addresses; /* the same */
    uint64_t workspace;
    bool intermediates, overrides; /* the pack has attributes that change what tensors are */
    bool has_beta, is_beta_zero;   /* of a convolution: what is there is added to, with a factor */
    bool incomplete;               /* memory was out */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all descriptors */
static struct tsr_map descriptors;                       /* by handle */

static void put(struct descriptor *descriptor)
{
    if (--descriptor->references)
        return;
    for (size_t i = 0; i < descriptor->links.count; i++)
        put(descriptor->links.data[i].to);
    tsr_vec_fini(&descriptor->links);
    tsr_vec_fini(&descriptor->numbers);
    tsr_vec_fini(&descriptor->addresses);
    free(descriptor);
}

static struct descriptor *find(uint64_t handle, bool make)
{
    struct descriptor *found = handle ? tsr_map_find(&descriptors, handle) : NULL;
    if (found || !make || !handle)
        return found;
    found = calloc(1, sizeof *found);
    if (!found)
        return NULL;
    found->references = 1;
    if (!tsr_map_set(&descriptors, handle, found)) {
        put(found);
        return NULL;
    }
    return found;
}

static void refer(struct descriptor *from, struct descriptor *to, int32_t attribute)
{
    if (!to || to == from || !tsr_vec_push(&from->links, (struct link){to, attribute}))
        from->incomplete = true;
    else
        to->references++;
}

/* Attributes of operations whose tensors are only read; others may be written. */
static bool is_input(int32_t attribute)
{
    static const struct {
        int16_t first, last;
    } inputs[] = {{703, 704},   {709, 709},
                  {711, 711},   {716, 717},
                  {751, 752},   {757, 758},
                  {772, 772},   {782, 787},
                  {1520, 1521}, {1525, 1527},
                  {1610, 1610}, {1613, 1613},
                  {1621, 1625}, {1710, 1710},
                  {1721, 1722}, {1801, 1801},
                  {1950, 1950}, {1952, 1953},
                  {2002, 2002}, {2005, 2010},
                  {2101, 2106}, {2200, 2200},
                  {2500, 2500}, {2600, 2601},
                  {2800, 2802}, {2805, 2810},
                  {2815, 2816}, {2820, 2827},
                  {2851, 2858}, {2862, 2863},
                  {2870, 2873}, {3000, 3005},
                  {3008, 3009}, {3100, 3100},
                  {3200, 3200}, {3300, 3300},
                  {3400, 3400}, {CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC}};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        if (attribute >= inputs[i].first && attribute <= inputs[i].last)
            return true;
    return false;
}

static bool has_attribute(const struct descriptor *operation, int32_t first, int32_t last)
{
    for (size_t i = 0; i < operation->links.count; i++)
        if (operation->links.data[i].attribute >= first && operation->links.data[i].attribute <= last)
            return true;
    return false;
}

/* An output of which every element is written and none read. Reductions and what keeps statistics may add to what is there. */
static bool is_overwritten(const struct descriptor *operation, int32_t attribute)
{
    switch (attribute) {
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW:
        return operation->has_beta && operation->is_beta_zero;
    case CUDNN_ATTR_OPERATION_MATMUL_CDESC: /* overrides: the sizes are on the GPU */
        return !has_attribute(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                              CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    case CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC: /* masks, pages and lengths that are on the GPU: rows may be left out */
        return !has_attribute(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC,
                              CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC) &&
               !has_attribute(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_CU_SEQ_LEN_QDESC,
                              CUDNN_ATTR_OPERATION_SDPA_FWD_CU_SEQ_LEN_KVDESC);
    case CUDNN_ATTR_OPERATION_POINTWISE_YDESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_DXDESC:
    case CUDNN_ATTR_OPERATION_NORM_FWD_YDESC:
    case CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC:
        return true;
    default:
        return false;
    }
}

static enum tsr_operand_access access_of(const struct descriptor *operation, int32_t attribute)
{
    return is_input(attribute)                    ? TSR_OPERAND_READ
           : is_overwritten(operation, attribute) ? TSR_OPERAND_OVERWRITTEN
                                                  : TSR_OPERAND_BOTH;
}

static uint32_t copy_sizes(uint64_t to[TSR_BOX_AXES], const int64_t *from, int64_t count)
{
    for (int64_t i = 0; i < count && i < (int64_t)TSR_BOX_AXES; i++)
        to[i] = from[i] > 0 ? (uint64_t)from[i] : 0;
    return count > (int64_t)TSR_BOX_AXES ? TSR_BOX_AXES + 1 : (uint32_t)count;
}

static void set_tensor(struct tensor *tensor, int32_t attribute, int64_t count, const void *elements)
{
    tensor->is_tensor = true;
    if (attribute == CUDNN_ATTR_TENSOR_DIMENSIONS)
        tensor->axes = copy_sizes(tensor->dims, elements, count);
    else if (attribute == CUDNN_ATTR_TENSOR_STRIDES)
        tensor->stride_axes = copy_sizes(tensor->strides, elements, count);
    else if (attribute == CUDNN_ATTR_TENSOR_DATA_TYPE)
        tensor->type = 1 + *(const int32_t *)elements; /* 0: not set */
    else if (attribute == CUDNN_ATTR_TENSOR_UNIQUE_ID)
        tensor->number = *(const int64_t *)elements;
    else if (attribute == CUDNN_ATTR_TENSOR_VECTOR_COUNT)
        tensor->vector = *(const int64_t *)elements;
    else if (attribute == CUDNN_ATTR_TENSOR_IS_BY_VALUE)
        tensor->by_value = *(const bool *)elements;
    else if (attribute == CUDNN_ATTR_TENSOR_REORDERING_MODE)
        tensor->other_layout |= *(const int32_t *)elements != 0;
    else if (attribute == CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)
        tensor->other_layout = true;
}

static void set_pack(struct descriptor *pack, int32_t attribute, int64_t count, const uint64_t *elements)
{
    pack->is_known_pack = true;
    if (attribute == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) {
        tsr_vec_clear(&pack->numbers);
        for (int64_t i = 0; i < count; i++)
            pack->incomplete |= !tsr_vec_push(&pack->numbers, (int64_t)elements[i]);
    } else if (attribute == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) {
        tsr_vec_clear(&pack->addresses);
        for (int64_t i = 0; i < count; i++)
            pack->incomplete |= !tsr_vec_push(&pack->addresses, elements[i]);
    } else if (attribute == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
        pack->workspace = elements[0];
    } else if (attribute == CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES) {
        pack->intermediates = true;
    } else {
        pack->overrides = true;
    }
}

/* The same attribute may be set again, with another value. */
static void set_beta(struct descriptor *operation, int32_t type, const void *elements)
{
    static const uint8_t zero[sizeof(double)];
    size_t bytes = type == CUDNN_TYPE_FLOAT ? sizeof(float) : type == CUDNN_TYPE_DOUBLE ? sizeof(double) : 0;
    operation->has_beta = true;
    operation->is_beta_zero = bytes && memcmp(elements, zero, bytes) == 0;
}

/* (descriptor, attribute, type, count, elements) */
static void note_set(const struct tsr_arguments *arguments)
{
    struct descriptor *descriptor = find(tsr_argument(arguments, 1), true);
    int32_t attribute = tsr_argument_int(arguments, 2), type = tsr_argument_int(arguments, 3);
    int64_t count = (int64_t)tsr_argument(arguments, 4);
    const void *elements = (const void *)tsr_argument(arguments, 5);
    if (!descriptor || !elements || count <= 0)
        return;
    if (attribute >= CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT && attribute < CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
        set_tensor(&descriptor->tensor, attribute, count, elements);
    if (attribute >= CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && attribute <= CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES)
        set_pack(descriptor, attribute, count, elements);
    if (attribute == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA ||
        attribute == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA ||
        attribute == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)
        set_beta(descriptor, type, elements);
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
        refer(descriptor, find(((const uint64_t *)elements)[i], true), attribute);
}

/* (descriptor, attribute, type, wanted, count, elements): descriptors that are given out belong to the one that was asked. */
static void note_get(const struct tsr_arguments *arguments)
{
    const int64_t *count = (const int64_t *)tsr_argument(arguments, 5);
    const uint64_t *elements = (const uint64_t *)tsr_argument(arguments, 6);
    int64_t wanted = (int64_t)tsr_argument(arguments, 4);
    struct descriptor *asked = find(tsr_argument(arguments, 1), false);
    if (!asked || !elements || tsr_argument_int(arguments, 3) != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return;
    for (int64_t i = 0; i < wanted && (!count || i < *count); i++) {
        struct descriptor *given = find(elements[i], true);
        if (given && given != asked && given->links.count == 0 && !given->tensor.is_tensor)
            refer(given, asked, 0);
    }
}

void tsr_dnn_note(const struct tsr_arguments *arguments)
{
    pthread_mutex_lock(&lock);
    if (arguments->call == TSR_CALL_cudnnBackendSetAttribute) {
        note_set(arguments);
    } else if (arguments->call == TSR_CALL_cudnnBackendGetAttribute) {
        note_get(arguments);
    } else if (arguments->call == TSR_CALL_cudnnBackendDestroyDescriptor) {
        uint64_t handle = tsr_argument(arguments, 1);
        struct descriptor *gone = handle ? tsr_map_remove(&descriptors, handle) : NULL;
        if (gone)
            put(gone);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- execution ---- */

struct found {
    const struct tensor *tensors[MOST_TENSORS];
    enum tsr_operand_access access[MOST_TENSORS];
    uint32_t count;
    bool incomplete;
};

static void collect(const struct descriptor *from, enum tsr_operand_access access, uint32_t depth, struct found *found)
{
    found->incomplete |= from->incomplete || depth == DEPTH || found->count == MOST_TENSORS;
    if (depth == DEPTH || found->count == MOST_TENSORS)
        return;
    if (from->tensor.is_tensor) {
        found->tensors[found->count] = &from->tensor;
        found->access[found->count++] = access;
    }
    for (size_t i = 0; i < from->links.count; i++)
        collect(from->links.data[i].to, access_of(from, from->links.data[i].attribute), depth + 1, found);
}

static uint32_t type_bits(int32_t type)
{
    static const uint8_t bits[] = {32, 64, 16, 8, 32, 0, 8, 0, 0, 16, 64, 8, 8, 8, 0, 8, 4, 4, 4, 32, 64, 128, 8, 8};
    return type >= 0 && (uint32_t)type < sizeof bits ? bits[type] : 0; /* cudnnDataType_t; vectors of bytes: 0 */
}

/* Elements of less than a byte lie in pairs, so a pair is taken for each of them. */
static void add_tensor(struct tsr_operands *operands, enum tsr_operand_access access, const struct tensor *tensor,
                       uint64_t address)
{
    uint32_t bits = type_bits(tensor->type - 1);
    if (tensor->by_value)
        return;
    if (bits < 8 || tensor->other_layout || tensor->axes == 0 || tensor->axes > TSR_BOX_AXES ||
        tensor->axes != tensor->stride_axes) {
        tsr_operands_add_whole(operands, access, address);
        return;
    }
    uint64_t bytes = bits / 8 * (tensor->vector > 1 ? (uint64_t)tensor->vector : 1);
    struct tsr_box box = {.address = address, .element_bytes = bytes, .axes = tensor->axes};
    for (uint32_t i = 0; i < tensor->axes; i++) {
        box.extents[i] = tensor->dims[i];
        box.strides[i] = tensor->strides[i] * bytes;
    }
    tsr_operands_add_box(operands, access, &box);
}

static void add_pack(struct tsr_operands *operands, const struct descriptor *pack, const struct found *found)
{
    for (size_t i = 0; i < pack->numbers.count && i < pack->addresses.count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < found->count; k++)
            if (found->tensors[k]->number == pack->numbers.data[i] && !pack->overrides) {
                add_tensor(operands, found->access[k], found->tensors[k], pack->addresses.data[i]);
                known = true;
            }
        if (!known || found->incomplete)
            tsr_operands_add_whole(operands, TSR_OPERAND_BOTH, pack->addresses.data[i]);
    }
}

static void add_workspace(struct tsr_operands *operands, const struct tsr_arguments *arguments, uint64_t address)
{
    static void *known;
    int (*get)(void *descriptor, int attribute, int type, int64_t wanted, int64_t *count, void *elements) =
        tsr_call_function(arguments->call, "cudnnBackendGetAttribute", &known);
    int64_t bytes = 0, count = 0;
    void *plan = (void *)tsr_argument(arguments, 2);
    if (get && get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes) == 0 && count == 1)
        tsr_operands_add_bytes(operands, TSR_OPERAND_SCRATCH, address, bytes > 0 ? (uint64_t)bytes : 0);
    else
        tsr_operands_add_whole(operands, TSR_OPERAND_BOTH, address);
}

/* cudnnBackendExecute(handle, plan, pack) */
void tsr_dnn_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands)
{
    static __thread struct found found;
    if (arguments->call != TSR_CALL_cudnnBackendExecute) {
        tsr_operands_unknown(operands, "a call of cuDNN's older interface");
        return;
    }
    uint64_t workspace = 0;
    pthread_mutex_lock(&lock);
    struct descriptor *plan = find(tsr_argument(arguments, 2), false), *pack = find(tsr_argument(arguments, 3), false);
    found.count = 0;
    found.incomplete = false;
    if (!pack || !pack->is_known_pack || pack->incomplete || pack->intermediates ||
        pack->numbers.count != pack->addresses.count) {
        tsr_operands_unknown(operands, "a variant pack that is not known");
    } else {
        if (plan)
            collect(plan, TSR_OPERAND_BOTH, 0, &found);
        add_pack(operands, pack, &found);
        workspace = pack->workspace;
    }
    pthread_mutex_unlock(&lock);
    add_workspace(operands, arguments, workspace);
}
