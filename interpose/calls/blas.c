/* Operands of cuBLAS' calls: the rows of blas_rows.h, and the workspace of the handle. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls/blas_rows.h"
#include "calls/entries.h"
#include "calls/types.h"

#define ARGUMENT(position) (-(position))
#define LARGEST CUDA_C_64F /* alpha and beta of calls whose types say little of theirs */

#define TSR_OPERAND_SUM 0

enum shape { SHAPE_MATRIX, SHAPE_VECTOR, SHAPE_SQUARE, SHAPE_SCALAR, SHAPE_BETA };

static const struct row {
    uint16_t call;
    uint8_t access, shape, pointer;
    int8_t type;                                     /* negative: the argument that has it */
    uint8_t op, rows, columns, pitch, stride, count; /* of BETA: compute, size, other, of, 0, 0 */
} rows[] = {
#define MATRIX(call, access, pointer, type, op, rows, columns, pitch, stride, count)                                           \
    {TSR_CALL_##call, TSR_OPERAND_##access, SHAPE_MATRIX, pointer, type, op, rows, columns, pitch, stride, count},
#define VECTOR(call, access, pointer, type, op, n, other, pitch)                                                               \
    {TSR_CALL_##call, TSR_OPERAND_##access, SHAPE_VECTOR, pointer, type, op, n, other, pitch, 0, 0},
#define SQUARE(call, access, pointer, type, side, left, right, pitch)                                                          \
    {TSR_CALL_##call, TSR_OPERAND_##access, SHAPE_SQUARE, pointer, type, side, left, right, pitch, 0, 0},
#define SCALAR(call, access, pointer, type)                                                                                    \
    {TSR_CALL_##call, TSR_OPERAND_##access, SHAPE_SCALAR, pointer, type, 0, 0, 0, 0, 0, 0},
#define BETA(call, pointer, type, compute, of, size, other)                                                                    \
    {TSR_CALL_##call, TSR_OPERAND_READ, SHAPE_BETA, pointer, type, compute, size, other, of, 0, 0},
    BLAS_ROWS};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* A size; 0 for one that the library will refuse. */
static uint64_t size(const struct tsr_arguments *arguments, uint32_t position)
{
    int64_t value = arguments->call == TSR_CALL_cublasGemmEx_64 ? (int64_t)tsr_argument(arguments, position)
                                                                : tsr_argument_int(arguments, position);
    return value > 0 ? (uint64_t)value : 0;
}

/* The distance of a vector's elements may be negative: then they are taken from the end of the same memory. */
static uint64_t increment(const struct tsr_arguments *arguments, uint32_t position)
{
    int64_t value = tsr_argument_int(arguments, position);
    return (uint64_t)(value < 0 ? -value : value);
}

static struct tsr_matrix matrix_of(const struct row *row, const struct tsr_arguments *arguments, uint32_t bits)
{
    struct tsr_matrix matrix = {.address = tsr_argument(arguments, row->pointer), .bits = bits, .count = 1};
    bool other = row->op && tsr_argument_int(arguments, row->op) != CUBLAS_OP_N; /* a side: 0 is left */
    uint64_t first = size(arguments, row->rows), second = row->columns ? size(arguments, row->columns) : 0;
    uint64_t chosen = other ? second : first;
    matrix.pitch = row->shape == SHAPE_VECTOR ? increment(arguments, row->pitch) : size(arguments, row->pitch);
    if (row->shape == SHAPE_MATRIX) {
        matrix.rows = chosen;
        matrix.columns = other ? first : second;
    } else {
        matrix.rows = row->shape == SHAPE_VECTOR ? 1 : chosen;
        matrix.columns = chosen;
    }
    if (row->count) {
        matrix.count = size(arguments, row->count);
        matrix.stride = tsr_argument(arguments, row->stride);
    }
    return matrix;
}

static bool scalars_on_gpu(const struct tsr_arguments *arguments)
{
    static void *known;
    int (*get)(void *handle, int *mode) = tsr_call_function(arguments->call, "cublasGetPointerMode_v2", &known);
    int mode = CUBLAS_POINTER_MODE_DEVICE;
    return !get || get((void *)tsr_argument(arguments, 1), &mode) != 0 || mode == CUBLAS_POINTER_MODE_DEVICE;
}

/* ---- beta ---- */

/* Of alpha and beta, where the arguments only say how is computed; 0: not known. */
static uint32_t scale_bytes(int32_t compute, int32_t type)
{
    bool is_complex = type == CUDA_C_32F || type == CUDA_C_64F;
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        return 2;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        return 4;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return is_complex ? 8 : 4;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        return is_complex ? 16 : 8;
    default:
        return 0;
    }
}

/* The row's beta is on the host and 0, and the call computes something. */
static bool is_zero_beta(const struct row *row, const struct tsr_arguments *arguments)
{
    static const uint8_t zero[16];
    const void *beta = (const void *)tsr_argument(arguments, row->pointer);
    uint32_t bytes = tsr_type_bits(row->type) / 8;
    if (row->op)
        bytes = scale_bytes(tsr_argument_int(arguments, row->op), tsr_argument_int(arguments, row->pitch));
    if (!beta || !bytes || bytes > sizeof zero || !size(arguments, row->rows))
        return false;
    return (!row->columns || size(arguments, row->columns)) && memcmp(beta, zero, bytes) == 0;
}

static enum tsr_operand_access access_of_sum(const struct tsr_arguments *arguments, bool on_gpu)
{
    for (size_t i = 0; i < ROW_COUNT && !on_gpu; i++)
        if (rows[i].call == arguments->call && rows[i].shape == SHAPE_BETA && is_zero_beta(&rows[i], arguments))
            return TSR_OPERAND_OVERWRITTEN;
    return TSR_OPERAND_BOTH;
}

/* ---- workspaces that the application gave ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct workspace {
    uint64_t handle, address, bytes; /* lock; handle 0: free */
} workspaces[256];
static bool workspaces_lost; /* lock: one more was given than there is room for */
#define WORKSPACE_COUNT (sizeof workspaces / sizeof workspaces[0])

static void set_workspace(uint64_t handle, uint64_t address, uint64_t bytes)
{
    struct workspace *place = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WORKSPACE_COUNT; i++) {
        if (workspaces[i].handle == handle)
            workspaces[i].handle = 0;
        if (workspaces[i].handle == 0)
            place = &workspaces[i];
    }
    if (place && address)
        *place = (struct workspace){handle, address, bytes};
    else if (address)
        workspaces_lost = true;
    pthread_mutex_unlock(&lock);
}

static void add_workspace(uint64_t handle, struct tsr_operands *operands)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WORKSPACE_COUNT; i++)
        if (workspaces[i].handle == handle && handle)
            tsr_operands_add_bytes(operands, TSR_OPERAND_SCRATCH, workspaces[i].address, workspaces[i].bytes);
    if (workspaces_lost)
        tsr_operands_unknown(operands, "workspaces of more handles than there is room for");
    pthread_mutex_unlock(&lock);
}

void tsr_blas_note(const struct tsr_arguments *arguments)
{
    uint64_t handle = tsr_argument(arguments, 1);
    if (arguments->call == TSR_CALL_cublasSetWorkspace_v2)
        set_workspace(handle, tsr_argument(arguments, 2), tsr_argument(arguments, 3));
    else if (arguments->call == TSR_CALL_cublasSetStream_v2 || arguments->call == TSR_CALL_cublasDestroy_v2)
        set_workspace(handle, 0, 0); /* a stream is set with the library's own workspace */
}

static void add_row(const struct row *row, const struct tsr_arguments *arguments, bool on_gpu, struct tsr_operands *operands)
{
    uint32_t bits = tsr_type_bits(row->type < 0 ? tsr_argument_int(arguments, (uint32_t)-row->type) : row->type);
    enum tsr_operand_access access = row->access == TSR_OPERAND_SUM ? access_of_sum(arguments, on_gpu) : row->access;
    if (bits == 0) {
        tsr_operands_unknown(operands, "a type that is not known");
    } else if (row->shape < SHAPE_SCALAR) {
        struct tsr_matrix matrix = matrix_of(row, arguments, bits);
        tsr_operands_add_matrix(operands, access, &matrix);
    } else if (on_gpu) {
        tsr_operands_add_bytes(operands, access, tsr_argument(arguments, row->pointer), bits / 8);
    }
}

void tsr_blas_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands)
{
    bool found = false, on_gpu = true;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].call == arguments->call) {
            on_gpu = found ? on_gpu : scalars_on_gpu(arguments);
            add_row(&rows[i], arguments, on_gpu, operands);
            found = true;
        }
    if (!found)
        tsr_operands_unknown(operands, "operands that only memory names");
    add_workspace(tsr_argument(arguments, 1), operands);
}
