/*
 * A library with the entry points of cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSPARSE and NCCL, to be built under each of their names. What launches calls
 * back; what tells something about a handle reads it from the handle, which here is a struct of the test's own.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int (*launch_function)(void);
extern launch_function stand_in_launch, stand_in_make;
extern size_t stand_in_work_bytes;
launch_function stand_in_launch, stand_in_make;
size_t stand_in_work_bytes;

#define LAUNCHES(name)                                                                                                         \
    int name(void);                                                                                                            \
    int name(void)                                                                                                             \
    {                                                                                                                          \
        return stand_in_launch ? stand_in_launch() : 0;                                                                        \
    }
#define SUCCEEDS(name)                                                                                                         \
    int name(void);                                                                                                            \
    int name(void)                                                                                                             \
    {                                                                                                                          \
        return 0;                                                                                                              \
    }
/* What makes a handle calls back, too; the handle is what is there. */
#define MAKES(name)                                                                                                            \
    int name(void);                                                                                                            \
    int name(void)                                                                                                             \
    {                                                                                                                          \
        return stand_in_make ? stand_in_make() : 0;                                                                            \
    }
#include "entry_points.h"

/* ---- cuBLAS: a handle is its pointer mode ---- */

int cublasGetPointerMode_v2(const int *handle, int *mode);
int cublasGetPointerMode_v2(const int *handle, int *mode)
{
    *mode = *handle;
    return 0;
}

/* ---- cuBLASLt: a descriptor is a list of attributes, ended by -1 ---- */

struct attribute {
    int32_t name, bytes;
    uint64_t value;
};

static int get(const struct attribute *list, int name, void *value, size_t bytes)
{
    for (; list->name != -1; list++)
        if (list->name == name && (size_t)list->bytes == bytes) {
            memcpy(value, &list->value, bytes);
            return 0;
        }
    return 7; /* CUBLAS_STATUS_INVALID_VALUE */
}

#define GETTER(function)                                                                                                       \
    int function(const struct attribute *list, int name, void *value, size_t bytes, size_t *written);                          \
    int function(const struct attribute *list, int name, void *value, size_t bytes, size_t *written)                           \
    {                                                                                                                          \
        *written = bytes;                                                                                                      \
        return get(list, name, value, bytes);                                                                                  \
    }
GETTER(cublasLtMatrixLayoutGetAttribute)
GETTER(cublasLtMatmulDescGetAttribute)
GETTER(cublasLtMatrixTransformDescGetAttribute)

/* ---- cuDNN: a plan is its work area's size; a heuristic gives out the descriptors that it is handed ---- */

int cudnnBackendGetAttribute(const int64_t *descriptor, int name, int type, int64_t wanted, int64_t *count, int64_t *elements);
int cudnnBackendGetAttribute(const int64_t *descriptor, int name, int type, int64_t wanted, int64_t *count, int64_t *elements)
{
    (void)name;
    *count = wanted;
    if (type == 3)
        *elements = *descriptor;
    return 0;
}

/* ---- cuFFT ---- */

int cufftGetSize(int plan, size_t *bytes);
int cufftGetSize(int plan, size_t *bytes)
{
    (void)plan;
    *bytes = stand_in_work_bytes;
    return 0;
}

static int plan_number = 7;
#define MAKES_A_PLAN(name)                                                                                                     \
    int name(int *plan);                                                                                                       \
    int name(int *plan)                                                                                                        \
    {                                                                                                                          \
        *plan = plan_number++;                                                                                                 \
        return 0;                                                                                                              \
    }
MAKES_A_PLAN(cufftPlan1d)
MAKES_A_PLAN(cufftPlan2d)
MAKES_A_PLAN(cufftPlan3d)
MAKES_A_PLAN(cufftPlanMany)

/* ---- cuSPARSE: descriptors are what they tell ---- */

struct sparse {
    int64_t format, rows, columns, nonzeros;
    uint64_t first, second, values;
    int64_t first_type, second_type, type, batches;
};
struct dense {
    int64_t rows, columns, pitch;
    uint64_t values;
    int64_t type, order, batches, stride;
};
struct vector {
    int64_t size;
    uint64_t values;
    int64_t type;
};

int cusparseGetPointerMode(const int *handle, int *mode);
int cusparseGetPointerMode(const int *handle, int *mode)
{
    *mode = *handle;
    return 0;
}

int cusparseSpMatGetFormat(const struct sparse *matrix, int *format);
int cusparseSpMatGetFormat(const struct sparse *matrix, int *format)
{
    *format = (int)matrix->format;
    return 0;
}

int cusparseSpMatGetStridedBatch(const struct sparse *matrix, int *count);
int cusparseSpMatGetStridedBatch(const struct sparse *matrix, int *count)
{
    *count = (int)matrix->batches;
    return 0;
}

int cusparseCsrGet(const struct sparse *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *offsets,
                   uint64_t *indices, uint64_t *values, int *offset_type, int *index_type, int *base, int *type);
int cusparseCsrGet(const struct sparse *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *offsets,
                   uint64_t *indices, uint64_t *values, int *offset_type, int *index_type, int *base, int *type)
{
    *rows = matrix->rows;
    *columns = matrix->columns;
    *nonzeros = matrix->nonzeros;
    *offsets = matrix->first;
    *indices = matrix->second;
    *values = matrix->values;
    *offset_type = (int)matrix->first_type;
    *index_type = (int)matrix->second_type;
    *base = 0;
    *type = (int)matrix->type;
    return 0;
}

int cusparseCscGet(const struct sparse *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *offsets,
                   uint64_t *indices, uint64_t *values, int *offset_type, int *index_type, int *base, int *type);
int cusparseCscGet(const struct sparse *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *offsets,
                   uint64_t *indices, uint64_t *values, int *offset_type, int *index_type, int *base, int *type)
{
    return cusparseCsrGet(matrix, rows, columns, nonzeros, offsets, indices, values, offset_type, index_type, base, type);
}

int cusparseCooGet(const struct sparse *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *row_indices,
                   uint64_t *column_indices, uint64_t *values, int *index_type, int *base, int *type);
int cusparseCooGet(const struct sparse *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros, uint64_t *row_indices,
                   uint64_t *column_indices, uint64_t *values, int *index_type, int *base, int *type)
{
    int unused;
    return cusparseCsrGet(matrix, rows, columns, nonzeros, row_indices, column_indices, values, &unused, index_type, base,
                          type);
}

int cusparseDnMatGet(const struct dense *matrix, int64_t *rows, int64_t *columns, int64_t *pitch, uint64_t *values, int *type,
                     int *order);
int cusparseDnMatGet(const struct dense *matrix, int64_t *rows, int64_t *columns, int64_t *pitch, uint64_t *values, int *type,
                     int *order)
{
    *rows = matrix->rows;
    *columns = matrix->columns;
    *pitch = matrix->pitch;
    *values = matrix->values;
    *type = (int)matrix->type;
    *order = (int)matrix->order;
    return 0;
}

int cusparseDnMatGetStridedBatch(const struct dense *matrix, int *count, int64_t *stride);
int cusparseDnMatGetStridedBatch(const struct dense *matrix, int *count, int64_t *stride)
{
    *count = (int)matrix->batches;
    *stride = matrix->stride;
    return 0;
}

int cusparseDnVecGet(const struct vector *vector, int64_t *size, uint64_t *values, int *type);
int cusparseDnVecGet(const struct vector *vector, int64_t *size, uint64_t *values, int *type)
{
    *size = vector->size;
    *values = vector->values;
    *type = (int)vector->type;
    return 0;
}

#define TELLS_BYTES(name, place)                                                                                                \
    int name(const void *a, const void *b, const void *c, const void *d, const void *e, const void *f, const void *g,          \
             const void *h, const void *i, size_t *j, size_t *k);                                                              \
    int name(const void *a, const void *b, const void *c, const void *d, const void *e, const void *f, const void *g,          \
             const void *h, const void *i, size_t *j, size_t *k)                                                               \
    {                                                                                                                          \
        (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k;                     \
        *(place) = stand_in_work_bytes;                                                                                        \
        return 0;                                                                                                              \
    }
TELLS_BYTES(cusparseSpMV_bufferSize, j)
TELLS_BYTES(cusparseSpMM_bufferSize, k)
TELLS_BYTES(cusparseSDDMM_bufferSize, k)

/* ---- NCCL: a communicator is its number of ranks ---- */

int ncclCommCount(const int *communicator, int *count);
int ncclCommCount(const int *communicator, int *count)
{
    *count = *communicator;
    return 0;
}
