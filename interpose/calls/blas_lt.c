/* Operands of cublasLtMatmul and cublasLtMatrixTransform: from the layouts and the operation, as the library's own functions tell them. */
#include <string.h>

#include "calls/entries.h"
#include "calls/types.h"

typedef int get_function(void *descriptor, int attribute, void *value, size_t bytes, size_t *written);

struct query {
    get_function *layout, *operation, *transform;
};

static struct query queries(uint32_t call)
{
    static void *layout, *operation, *transform;
    return (struct query){(get_function *)tsr_call_function(call, "cublasLtMatrixLayoutGetAttribute", &layout),
                          (get_function *)tsr_call_function(call, "cublasLtMatmulDescGetAttribute", &operation),
                          (get_function *)tsr_call_function(call, "cublasLtMatrixTransformDescGetAttribute", &transform)};
}

struct layout {
    int32_t type, order, batches;
    uint32_t batch_mode;
    uint64_t rows, columns;
    int64_t pitch, stride, plane;
};

#define GET(get, descriptor, attribute, field) ((get)((descriptor), (attribute), &(field), sizeof(field), &written) == 0)

/* Batch modes are newer than the other attributes; a library without them has strided batches only. */
static bool read_layout(get_function *get, void *descriptor, struct layout *layout)
{
    size_t written;
    if (!get || !descriptor)
        return false;
    *layout = (struct layout){.batches = 1};
    if (!GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, layout->batch_mode))
        layout->batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
    return GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_TYPE, layout->type) &&
           GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_ORDER, layout->order) &&
           GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_ROWS, layout->rows) &&
           GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_COLS, layout->columns) &&
           GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_LD, layout->pitch) &&
           GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout->batches) &&
           GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout->stride) &&
           GET(get, descriptor, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, layout->plane);
}

/* Rows, columns and distances of what the layout is in memory; false: an order whose tiles are not described here. */
static bool memory_of(const struct layout *layout, struct tsr_matrix *matrix)
{
    matrix->bits = tsr_type_bits(layout->type);
    matrix->pitch = (uint64_t)layout->pitch;
    matrix->stride = (uint64_t)layout->stride;
    matrix->count = layout->batches > 0 ? (uint64_t)layout->batches : 0;
    if (layout->order == CUBLASLT_ORDER_COL) {
        matrix->rows = layout->rows;
        matrix->columns = layout->columns;
    } else if (layout->order == CUBLASLT_ORDER_ROW) {
        matrix->rows = layout->columns;
        matrix->columns = layout->rows;
    } else if (layout->order == CUBLASLT_ORDER_COL32) {
        matrix->rows = 32 * layout->rows;
        matrix->columns = (layout->columns + 31) / 32;
    }
    return matrix->bits && matrix->rows;
}

static void add(struct tsr_operands *operands, enum tsr_operand_access access, uint64_t address, get_function *get,
                void *descriptor)
{
    struct layout layout;
    struct tsr_matrix matrix = {.address = address};
    if (!address)
        return;
    if (!read_layout(get, descriptor, &layout)) {
        tsr_operands_unknown(operands, "a layout that cannot be read");
    } else if (layout.batch_mode != CUBLASLT_BATCH_MODE_STRIDED) {
        tsr_operands_unknown(operands, "operands that only memory names");
    } else if (!memory_of(&layout, &matrix)) {
        tsr_operands_add_whole(operands, access, address);
    } else {
        if (layout.plane || layout.order == CUBLASLT_ORDER_COL32) /* whose last columns may be padding */
            access = (enum tsr_operand_access)(access & TSR_OPERAND_BOTH);
        tsr_operands_add_matrix(operands, access, &matrix);
        if (layout.plane) { /* real and imaginary parts apart: the type is that of one number of two */
            matrix.address += (uint64_t)layout.plane;
            tsr_operands_add_matrix(operands, access, &matrix);
        }
    }
}

/* The value of a pointer attribute; 0: it is not set, or the library does not have it. */
static uint64_t pointer(get_function *get, void *operation, int attribute)
{
    uint64_t value = 0;
    size_t written;
    return get && GET(get, operation, attribute, value) ? value : 0;
}

static int32_t number(get_function *get, void *operation, int attribute, int32_t otherwise)
{
    int32_t value = otherwise;
    size_t written;
    return get && GET(get, operation, attribute, value) ? value : otherwise;
}

/* Added, or as a gradient written. Where its type is not said, it is the largest that it may be. */
static void add_bias(struct tsr_operands *operands, get_function *get, void *operation, const struct layout *d,
                     int32_t epilogue)
{
    bool gradient = epilogue & (CUBLASLT_EPILOGUE_BGRAD | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
    uint64_t batch = 0;
    size_t written;
    if (!gradient && !(epilogue & CUBLASLT_EPILOGUE_BIAS))
        return;
    if (!GET(get, operation, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, batch))
        batch = 0;
    uint32_t bits = tsr_type_bits(number(get, operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, -1));
    uint32_t scale = tsr_type_bits(number(get, operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, -1));
    uint32_t own = tsr_type_bits(d->type);
    struct tsr_matrix matrix = {.address = pointer(get, operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER),
                                .rows = epilogue & CUBLASLT_EPILOGUE_BGRADB ? d->columns : d->rows,
                                .columns = d->batches > 0 ? (uint64_t)d->batches : 0,
                                .pitch = batch,
                                .count = 1,
                                .bits = bits          ? bits
                                        : scale > own ? scale
                                                      : own};
    tsr_operands_add_matrix(operands, gradient ? TSR_OPERAND_WRITE : TSR_OPERAND_READ, &matrix);
}

/* What a forward pass keeps for the backward pass: a bit for each element of D (ReLU), or D before the activation (GELU). */
static void add_auxiliary(struct tsr_operands *operands, get_function *get, void *operation, const struct layout *d,
                          int32_t epilogue)
{
    int64_t pitch = 0, stride = 0;
    size_t written;
    uint64_t address = pointer(get, operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
    if (!(epilogue & CUBLASLT_EPILOGUE_AUX))
        return;
    enum tsr_operand_access access = epilogue & CUBLASLT_EPILOGUE_FORWARD ? TSR_OPERAND_OVERWRITTEN : TSR_OPERAND_READ;
    uint32_t bits = tsr_type_bits(number(get, operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, d->type));
    if (!GET(get, operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, pitch) ||
        !GET(get, operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, stride) || bits < 16) {
        tsr_operands_add_whole(operands, access, address);
        return;
    }
    struct tsr_matrix matrix = {.address = address,
                                .rows = d->rows,
                                .columns = d->columns,
                                .pitch = (uint64_t)pitch,
                                .stride = (uint64_t)stride,
                                .count = d->batches > 0 ? (uint64_t)d->batches : 0,
                                .bits = epilogue & CUBLASLT_EPILOGUE_ANY_RELU ? 1 : bits};
    tsr_operands_add_matrix(operands, access, &matrix);
}

static void add_operation(struct tsr_operands *operands, get_function *get, void *operation, const struct layout *d)
{
    static const struct {
        int pointer, mode; /* mode 0: always one number */
        enum tsr_operand_access access;
    } scales[] = {
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, TSR_OPERAND_READ},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, TSR_OPERAND_READ},
        {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_C_SCALE_MODE, TSR_OPERAND_READ},
        {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_MODE, TSR_OPERAND_READ},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, TSR_OPERAND_READ},
        {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, 0, TSR_OPERAND_BOTH},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, 0, TSR_OPERAND_BOTH},
    };
    int32_t epilogue = number(get, operation, CUBLASLT_MATMUL_DESC_EPILOGUE, ~0);
    uint32_t bits = tsr_type_bits(number(get, operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_C_64F));
    add_bias(operands, get, operation, d, epilogue);
    add_auxiliary(operands, get, operation, d, epilogue);
    tsr_operands_add_whole(operands, TSR_OPERAND_WRITE, pointer(get, operation, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER));
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        uint64_t address = pointer(get, operation, scales[i].pointer);
        if (scales[i].mode && number(get, operation, scales[i].mode, 0) != 0)
            tsr_operands_add_whole(operands, scales[i].access, address);
        else
            tsr_operands_add_bytes(operands, scales[i].access, address, (bits ? bits : 128) / 8);
    }
}

/* Alpha and beta: on the host, or on the GPU as one number or as a vector. */
static void add_scalars(struct tsr_operands *operands, int32_t mode, uint64_t alpha, uint64_t beta)
{
    if (mode == CUBLASLT_POINTER_MODE_HOST)
        return;
    if (mode == CUBLASLT_POINTER_MODE_DEVICE) {
        tsr_operands_add_bytes(operands, TSR_OPERAND_READ, alpha, 16);
        tsr_operands_add_bytes(operands, TSR_OPERAND_READ, beta, 16);
        return;
    }
    tsr_operands_add_whole(operands, TSR_OPERAND_READ, alpha);
    if (mode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR) /* a vector each; in the modes after it, beta is not on the GPU */
        tsr_operands_add_whole(operands, TSR_OPERAND_READ, beta);
}

/* Beta is known to be 0, on the host or by the mode. */
static bool is_zero_beta(const struct query *query, void *operation, int32_t mode, uint64_t beta)
{
    static const uint8_t zero[16];
    uint32_t bytes = tsr_type_bits(number(query->operation, operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, -1)) / 8;
    bool on_host = mode == CUBLASLT_POINTER_MODE_HOST || mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
    if (mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO)
        return true;
    return on_host && beta && bytes && bytes <= sizeof zero && memcmp((const void *)beta, zero, bytes) == 0;
}

/* Something is summed up for each element of D: else it is not certain that all of them are written. */
static bool is_empty_sum(get_function *get, void *a)
{
    struct layout layout;
    return !read_layout(get, a, &layout) || !layout.rows || !layout.columns;
}

static void add_matmul(const struct tsr_arguments *of, struct tsr_operands *operands)
{
    struct query query = queries(of->call);
    void *operation = (void *)tsr_argument(of, 2), *d = (void *)tsr_argument(of, 12);
    struct layout layout;
    if (!query.operation || !operation || !read_layout(query.layout, d, &layout)) {
        tsr_operands_unknown(operands, "a layout that cannot be read");
        return;
    }
    add(operands, TSR_OPERAND_READ, tsr_argument(of, 4), query.layout, (void *)tsr_argument(of, 5));
    add(operands, TSR_OPERAND_READ, tsr_argument(of, 6), query.layout, (void *)tsr_argument(of, 7));
    int32_t mode = number(query.operation, operation, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST);
    bool is_plain =
        is_zero_beta(&query, operation, mode, tsr_argument(of, 8)) && !is_empty_sum(query.layout, (void *)tsr_argument(of, 5));
    if (!is_plain)
        add(operands, TSR_OPERAND_READ, tsr_argument(of, 9), query.layout, (void *)tsr_argument(of, 10));
    add(operands, is_plain ? TSR_OPERAND_OVERWRITTEN : TSR_OPERAND_WRITE, tsr_argument(of, 11), query.layout, d);
    add_operation(operands, query.operation, operation, &layout);
    add_scalars(operands, mode, tsr_argument(of, 3), tsr_argument(of, 8));
    tsr_operands_add_bytes(operands, TSR_OPERAND_SCRATCH, tsr_argument(of, 14), tsr_argument(of, 15));
}

/* (handle, operation, alpha, A, A's layout, beta, B, B's layout, C, C's layout, stream). Attribute 1 of the operation is the mode. */
static void add_transform(const struct tsr_arguments *of, struct tsr_operands *operands)
{
    struct query query = queries(of->call);
    add(operands, TSR_OPERAND_READ, tsr_argument(of, 4), query.layout, (void *)tsr_argument(of, 5));
    add(operands, TSR_OPERAND_READ, tsr_argument(of, 7), query.layout, (void *)tsr_argument(of, 8));
    add(operands, TSR_OPERAND_OVERWRITTEN, tsr_argument(of, 9), query.layout, (void *)tsr_argument(of, 10));
    int32_t mode = number(query.transform, (void *)tsr_argument(of, 2), CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE,
                          CUBLASLT_POINTER_MODE_DEVICE);
    add_scalars(operands, mode, tsr_argument(of, 3), tsr_argument(of, 6));
}

void tsr_blas_lt_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands)
{
    if (arguments->call == TSR_CALL_cublasLtMatmul)
        add_matmul(arguments, operands);
    else
        add_transform(arguments, operands);
}
