/* Operands of cuSPARSE's products of a sparse and a dense matrix or vector: from the descriptors, as the library's own functions tell them. */
#include <pthread.h>

#include "calls/entries.h"
#include "calls/types.h"

typedef int get_format(void *matrix, int *format);
typedef int get_compressed(void *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *offsets,
                           uint64_t *indices, uint64_t *values, int *offset_type, int *index_type, int *base, int *type);
typedef int get_coordinates(void *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *row_indices,
                            uint64_t *column_indices, uint64_t *values, int *index_type, int *base, int *type);
typedef int get_dense(void *matrix, int64_t *rows, int64_t *columns, int64_t *pitch, uint64_t *values, int *type, int *order);
typedef int get_dense_batch(void *matrix, int *count, int64_t *stride);
typedef int get_sparse_batch(void *matrix, int *count);
typedef int get_vector(void *vector, int64_t *size, uint64_t *values, int *type);
typedef int get_mode(void *handle, int *mode);

/* One of the library's functions, looked up once per place in the text. */
#define FUNCTION(call, type, name)                                                                                             \
    ({                                                                                                                         \
        static void *known;                                                                                                    \
        (type *)tsr_call_function((call), (name), &known);                                                                     \
    })

static uint64_t index_bytes(int type)
{
    return type == CUSPARSE_INDEX_16U ? 2 : type == CUSPARSE_INDEX_32I ? 4 : 8;
}

static uint64_t positive(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

static uint64_t value_bytes(uint64_t count, int type)
{
    return (count * tsr_type_bits(type) + 7) / 8;
}

struct sparse {
    uint64_t first, second, values; /* addresses: offsets or rows, indices or columns, values */
    uint64_t first_bytes, second_bytes, value_bytes;
};

static bool read_compressed(get_compressed *get, void *matrix, bool by_rows, struct sparse *sparse)
{
    int64_t rows, columns, nonzeros;
    int offset_type, index_type, base, type;
    if (!get || get(matrix, &rows, &columns, &nonzeros, &sparse->first, &sparse->second, &sparse->values, &offset_type,
                    &index_type, &base, &type) != 0)
        return false;
    sparse->first_bytes = (positive(by_rows ? rows : columns) + 1) * index_bytes(offset_type);
    sparse->second_bytes = positive(nonzeros) * index_bytes(index_type);
    sparse->value_bytes = value_bytes(positive(nonzeros), type);
    return tsr_type_bits(type);
}

static bool read_coordinates(get_coordinates *get, void *matrix, struct sparse *sparse)
{
    int64_t rows, columns, nonzeros;
    int index_type, base, type;
    if (!get || get(matrix, &rows, &columns, &nonzeros, &sparse->first, &sparse->second, &sparse->values, &index_type, &base,
                    &type) != 0)
        return false;
    sparse->first_bytes = sparse->second_bytes = positive(nonzeros) * index_bytes(index_type);
    sparse->value_bytes = value_bytes(positive(nonzeros), type);
    return tsr_type_bits(type);
}

static bool read_sparse(uint32_t call, void *matrix, struct sparse *sparse)
{
    int format = 0;
    get_format *get = FUNCTION(call, get_format, "cusparseSpMatGetFormat");
    if (!matrix || !get || get(matrix, &format) != 0)
        return false;
    if (format == CUSPARSE_FORMAT_CSR)
        return read_compressed(FUNCTION(call, get_compressed, "cusparseCsrGet"), matrix, true, sparse);
    if (format == CUSPARSE_FORMAT_CSC)
        return read_compressed(FUNCTION(call, get_compressed, "cusparseCscGet"), matrix, false, sparse);
    if (format == CUSPARSE_FORMAT_COO)
        return read_coordinates(FUNCTION(call, get_coordinates, "cusparseCooGet"), matrix, sparse);
    return false;
}

/* The distances between sparse matrices of a batch are not known. */
static void add_sparse(struct tsr_operands *operands, uint32_t call, enum tsr_operand_access access, void *matrix)
{
    struct sparse sparse;
    int count = 1;
    if (!read_sparse(call, matrix, &sparse)) {
        tsr_operands_unknown(operands, "a sparse matrix of a format that is not described");
        return;
    }
    get_sparse_batch *batch = FUNCTION(call, get_sparse_batch, "cusparseSpMatGetStridedBatch");
    if (batch && batch(matrix, &count) == 0 && count > 1) {
        tsr_operands_add_whole(operands, TSR_OPERAND_READ, sparse.first);
        tsr_operands_add_whole(operands, TSR_OPERAND_READ, sparse.second);
        tsr_operands_add_whole(operands, access, sparse.values);
        return;
    }
    tsr_operands_add_bytes(operands, TSR_OPERAND_READ, sparse.first, sparse.first_bytes);
    tsr_operands_add_bytes(operands, TSR_OPERAND_READ, sparse.second, sparse.second_bytes);
    tsr_operands_add_bytes(operands, access, sparse.values, sparse.value_bytes);
}

static void add_dense(struct tsr_operands *operands, uint32_t call, enum tsr_operand_access access, void *matrix)
{
    int64_t rows, columns, pitch, stride = 0;
    int type, order, count = 1;
    struct tsr_matrix found = {0};
    get_dense *get = FUNCTION(call, get_dense, "cusparseDnMatGet");
    get_dense_batch *batch = FUNCTION(call, get_dense_batch, "cusparseDnMatGetStridedBatch");
    if (!matrix || !get || !batch || get(matrix, &rows, &columns, &pitch, &found.address, &type, &order) != 0 ||
        batch(matrix, &count, &stride) != 0 || !tsr_type_bits(type)) {
        tsr_operands_unknown(operands, "a dense matrix that cannot be read");
        return;
    }
    found.rows = positive(order == CUSPARSE_ORDER_COL ? rows : columns);
    found.columns = positive(order == CUSPARSE_ORDER_COL ? columns : rows);
    found.pitch = positive(pitch);
    found.bits = tsr_type_bits(type);
    found.count = count > 1 ? (uint64_t)count : 1;
    found.stride = positive(stride);
    tsr_operands_add_matrix(operands, access, &found);
}

static void add_vector(struct tsr_operands *operands, uint32_t call, enum tsr_operand_access access, void *vector)
{
    int64_t size;
    uint64_t values;
    int type;
    get_vector *get = FUNCTION(call, get_vector, "cusparseDnVecGet");
    if (!vector || !get || get(vector, &size, &values, &type) != 0 || !tsr_type_bits(type))
        tsr_operands_unknown(operands, "a vector that cannot be read");
    else
        tsr_operands_add_bytes(operands, access, values, value_bytes(positive(size), type));
}

static void add_scalars(struct tsr_operands *operands, const struct tsr_arguments *of, uint32_t alpha, uint32_t beta)
{
    int mode = CUSPARSE_POINTER_MODE_DEVICE;
    get_mode *get = FUNCTION(of->call, get_mode, "cusparseGetPointerMode");
    if (get && get((void *)tsr_argument(of, 1), &mode) == 0 && mode != CUSPARSE_POINTER_MODE_DEVICE)
        return;
    tsr_operands_add_bytes(operands, TSR_OPERAND_READ, tsr_argument(of, alpha), 16);
    tsr_operands_add_bytes(operands, TSR_OPERAND_READ, tsr_argument(of, beta), 16);
}

/* ---- the buffer ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t prepared[256]; /* lock; addresses of buffers that hold what a preparation left for later calls; 0: free */
static bool prepared_lost;     /* lock; of more than there is room for */
#define PREPARED_COUNT (sizeof prepared / sizeof prepared[0])

void tsr_sparse_note(const struct tsr_arguments *of)
{
    bool vector = of->call == TSR_CALL_cusparseSpMV_preprocess;
    uint32_t position = vector ? 10 : 11;
    if (!vector && of->call != TSR_CALL_cusparseSpMM_preprocess && of->call != TSR_CALL_cusparseSDDMM_preprocess)
        return;
    pthread_mutex_lock(&lock);
    uint64_t buffer = tsr_argument(of, position), *place = NULL;
    for (size_t i = 0; i < PREPARED_COUNT && (!place || *place != buffer); i++)
        if (prepared[i] == buffer || (!place && !prepared[i]))
            place = &prepared[i];
    if (place)
        *place = buffer;
    else
        prepared_lost = true;
    pthread_mutex_unlock(&lock);
}

static bool is_prepared(uint64_t buffer)
{
    pthread_mutex_lock(&lock);
    bool found = prepared_lost;
    for (size_t i = 0; i < PREPARED_COUNT && !found; i++)
        found = prepared[i] == buffer;
    pthread_mutex_unlock(&lock);
    return found;
}

/* As large as the library says that it must be; what a preparation left in it is not scratch. */
static void add_buffer(struct tsr_operands *operands, const struct tsr_arguments *of, uint32_t position)
{
    typedef int get_bytes(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t);
    uint64_t buffer = tsr_argument(of, position), a[10];
    size_t bytes = 0;
    get_bytes *get = of->call == TSR_CALL_cusparseSpMV   ? FUNCTION(of->call, get_bytes, "cusparseSpMV_bufferSize")
                     : of->call == TSR_CALL_cusparseSpMM ? FUNCTION(of->call, get_bytes, "cusparseSpMM_bufferSize")
                                                         : FUNCTION(of->call, get_bytes, "cusparseSDDMM_bufferSize");
    for (uint32_t i = 0; i < 10; i++)
        a[i] = tsr_argument(of, i + 1);
    if (position == 10)
        a[9] = (uintptr_t)&bytes;
    if (!buffer)
        return;
    if (!get || get(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], (uintptr_t)&bytes) != 0 || is_prepared(buffer))
        tsr_operands_add_whole(operands, TSR_OPERAND_BOTH, buffer);
    else
        tsr_operands_add_bytes(operands, TSR_OPERAND_SCRATCH, buffer, bytes);
}

void tsr_sparse_operands(const struct tsr_arguments *of, struct tsr_operands *operands)
{
    if (of->call == TSR_CALL_cusparseSpMV) { /* (handle, op, alpha, A, x, beta, y, type, algorithm, buffer) */
        add_sparse(operands, of->call, TSR_OPERAND_READ, (void *)tsr_argument(of, 4));
        add_vector(operands, of->call, TSR_OPERAND_READ, (void *)tsr_argument(of, 5));
        add_vector(operands, of->call, TSR_OPERAND_BOTH, (void *)tsr_argument(of, 7));
        add_scalars(operands, of, 3, 6);
        add_buffer(operands, of, 10);
        return;
    }
    if (of->call != TSR_CALL_cusparseSpMM && of->call != TSR_CALL_cusparseSDDMM) {
        tsr_operands_unknown(operands, "operands that only the library knows");
        return;
    }
    /* (handle, op, op, alpha, A, B, beta, C, type, algorithm, buffer): A is sparse, or as a sample of a dense product C is */
    bool sampled = of->call == TSR_CALL_cusparseSDDMM;
    void *a = (void *)tsr_argument(of, 5), *c = (void *)tsr_argument(of, 8);
    add_sparse(operands, of->call, sampled ? TSR_OPERAND_BOTH : TSR_OPERAND_READ, sampled ? c : a);
    add_dense(operands, of->call, TSR_OPERAND_READ, (void *)tsr_argument(of, 6));
    add_dense(operands, of->call, sampled ? TSR_OPERAND_READ : TSR_OPERAND_BOTH, sampled ? a : c);
    add_scalars(operands, of, 4, 7);
    add_buffer(operands, of, 11);
}
