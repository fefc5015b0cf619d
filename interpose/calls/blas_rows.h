/*
 * Operands of cuBLAS' calls, one row each: which arguments (by position from 1) say where it is, of what type and size.
 *
 *   MATRIX(call, access, pointer, type, op, rows, columns, pitch, stride, count)
 *       rows x columns, the other way round if `op` transposes (0: no such argument); columns are `pitch` elements apart, `count` such
 *       matrices `stride` elements apart (0: one)
 *   VECTOR(call, access, pointer, type, op, n, other, pitch)   n elements, or `other` if `op` transposes
 *   SQUARE(call, access, pointer, type, side, left, right, pitch)  left x left, or right x right if `side` says right
 *   SCALAR(call, access, pointer, type)                        on the GPU only if the handle's pointer mode says so
 *   BETA(call, pointer, type, compute, of, size, other)        the same, read: the factor of the operand that is a SUM. `compute`: the
 *       argument that says, with the type in argument `of`, how large it is on the host (0: its type does); size, other: arguments
 *       that must not be 0 (0: no such argument) if the sum is to be written
 *
 * Accesses are those of operands.h, and SUM: OVERWRITTEN if beta is 0 on the host, else BOTH. Calls that may return without writing
 * when nothing changes have no OVERWRITTEN operand.
 *
 * A type is a cudaDataType, or ARGUMENT(position) of one. Calls without rows have operands that only memory names.
 */
#define GEMM(call, type)                                                                                                       \
    MATRIX(call, READ, 8, type, 2, 4, 6, 9, 0, 0) MATRIX(call, READ, 10, type, 3, 6, 5, 11, 0, 0)                              \
    MATRIX(call, SUM, 13, type, 0, 4, 5, 14, 0, 0) SCALAR(call, READ, 7, type) BETA(call, 12, type, 0, 0, 6, 0)
#define GEMM_MIXED(call, scale)                                                                                                   \
    MATRIX(call, READ, 8, ARGUMENT(9), 2, 4, 6, 10, 0, 0) MATRIX(call, READ, 11, ARGUMENT(12), 3, 6, 5, 13, 0, 0)              \
    MATRIX(call, SUM, 15, ARGUMENT(16), 0, 4, 5, 17, 0, 0) SCALAR(call, READ, 7, scale)
#define GEMM_EX(call) GEMM_MIXED(call, LARGEST) BETA(call, 14, LARGEST, 18, 16, 6, 0)
#define GEMM_STRIDED(call, type)                                                                                               \
    MATRIX(call, READ, 8, type, 2, 4, 6, 9, 10, 18) MATRIX(call, READ, 11, type, 3, 6, 5, 12, 13, 18)                          \
    MATRIX(call, SUM, 15, type, 0, 4, 5, 16, 17, 18) SCALAR(call, READ, 7, type) BETA(call, 14, type, 0, 0, 6, 0)
#define GEMM_STRIDED_EX(call, scale)                                                                                           \
    MATRIX(call, READ, 8, ARGUMENT(9), 2, 4, 6, 10, 11, 21) MATRIX(call, READ, 12, ARGUMENT(13), 3, 6, 5, 14, 15, 21)          \
    MATRIX(call, SUM, 17, ARGUMENT(18), 0, 4, 5, 19, 20, 21) SCALAR(call, READ, 7, scale)                                      \
    BETA(call, 16, scale, 22, 18, 6, 0)
#define GEMV(call, type)                                                                                                       \
    MATRIX(call, READ, 6, type, 0, 3, 4, 7, 0, 0) VECTOR(call, READ, 8, type, 2, 4, 3, 9)                                      \
    VECTOR(call, SUM, 11, type, 2, 3, 4, 12) SCALAR(call, READ, 5, type) BETA(call, 10, type, 0, 0, 3, 4)
#define GER(call, type)                                                                                                        \
    VECTOR(call, READ, 5, type, 0, 2, 0, 6) VECTOR(call, READ, 7, type, 0, 3, 0, 8)                                            \
    MATRIX(call, BOTH, 9, type, 0, 2, 3, 10, 0, 0) SCALAR(call, READ, 4, type)
#define SYRK(call, type)                                                                                                       \
    MATRIX(call, READ, 7, type, 3, 4, 5, 8, 0, 0) SQUARE(call, BOTH, 10, type, 0, 4, 0, 11)                                    \
    SCALAR(call, READ, 6, type) SCALAR(call, READ, 9, type)
#define TRSM(call, type)                                                                                                       \
    SQUARE(call, READ, 9, type, 2, 6, 7, 10) MATRIX(call, BOTH, 11, type, 0, 6, 7, 12, 0, 0) SCALAR(call, READ, 8, type)
#define GEAM(call, type)                                                                                                       \
    MATRIX(call, READ, 7, type, 2, 4, 5, 8, 0, 0) MATRIX(call, READ, 10, type, 3, 4, 5, 11, 0, 0)                              \
    MATRIX(call, OVERWRITTEN, 12, type, 0, 4, 5, 13, 0, 0) SCALAR(call, READ, 6, type) SCALAR(call, READ, 9, type)
#define AXPY(call, type)                                                                                                       \
    VECTOR(call, READ, 4, type, 0, 2, 0, 5) VECTOR(call, BOTH, 6, type, 0, 2, 0, 7) SCALAR(call, READ, 3, type)
#define SCAL(call, type) VECTOR(call, BOTH, 4, type, 0, 2, 0, 5) SCALAR(call, READ, 3, type)
#define DOT(call, type)                                                                                                        \
    VECTOR(call, READ, 3, type, 0, 2, 0, 4) VECTOR(call, READ, 5, type, 0, 2, 0, 6) SCALAR(call, WRITE, 7, type)
#define NORM(call, type) VECTOR(call, READ, 3, type, 0, 2, 0, 4) SCALAR(call, WRITE, 5, type)

/* clang-format off */
#define BLAS_ROWS \
    GEMM(cublasSgemm_v2, CUDA_R_32F) \
    GEMM(cublasDgemm_v2, CUDA_R_64F) \
    GEMM(cublasCgemm_v2, CUDA_C_32F) \
    GEMM(cublasZgemm_v2, CUDA_C_64F) \
    GEMM(cublasHgemm, CUDA_R_16F) \
    GEMM_MIXED(cublasSgemmEx, CUDA_R_32F) \
    BETA(cublasSgemmEx, 14, CUDA_R_32F, 0, 0, 6, 0) \
    GEMM_EX(cublasGemmEx) \
    GEMM_EX(cublasGemmEx_64) \
    GEMM_STRIDED(cublasSgemmStridedBatched, CUDA_R_32F) \
    GEMM_STRIDED(cublasDgemmStridedBatched, CUDA_R_64F) \
    GEMM_STRIDED(cublasCgemmStridedBatched, CUDA_C_32F) \
    GEMM_STRIDED(cublasZgemmStridedBatched, CUDA_C_64F) \
    GEMM_STRIDED(cublasHgemmStridedBatched, CUDA_R_16F) \
    GEMM_STRIDED_EX(cublasGemmStridedBatchedEx, LARGEST) \
    GEMV(cublasSgemv_v2, CUDA_R_32F) \
    GEMV(cublasDgemv_v2, CUDA_R_64F) \
    GEMV(cublasCgemv_v2, CUDA_C_32F) \
    GEMV(cublasZgemv_v2, CUDA_C_64F) \
    GER(cublasSger_v2, CUDA_R_32F) \
    GER(cublasDger_v2, CUDA_R_64F) \
    SYRK(cublasSsyrk_v2, CUDA_R_32F) \
    SYRK(cublasDsyrk_v2, CUDA_R_64F) \
    TRSM(cublasStrsm_v2, CUDA_R_32F) \
    TRSM(cublasDtrsm_v2, CUDA_R_64F) \
    AXPY(cublasSaxpy_v2, CUDA_R_32F) \
    AXPY(cublasDaxpy_v2, CUDA_R_64F) \
    VECTOR(cublasAxpyEx, READ, 5, ARGUMENT(6), 0, 2, 0, 7) \
    VECTOR(cublasAxpyEx, BOTH, 8, ARGUMENT(9), 0, 2, 0, 10) \
    SCALAR(cublasAxpyEx, READ, 3, ARGUMENT(4)) \
    SCAL(cublasSscal_v2, CUDA_R_32F) \
    SCAL(cublasDscal_v2, CUDA_R_64F) \
    VECTOR(cublasScalEx, BOTH, 5, ARGUMENT(6), 0, 2, 0, 7) \
    SCALAR(cublasScalEx, READ, 3, ARGUMENT(4)) \
    DOT(cublasSdot_v2, CUDA_R_32F) \
    DOT(cublasDdot_v2, CUDA_R_64F) \
    VECTOR(cublasDotEx, READ, 3, ARGUMENT(4), 0, 2, 0, 5) \
    VECTOR(cublasDotEx, READ, 6, ARGUMENT(7), 0, 2, 0, 8) \
    SCALAR(cublasDotEx, WRITE, 9, ARGUMENT(10)) \
    NORM(cublasSnrm2_v2, CUDA_R_32F) \
    NORM(cublasDnrm2_v2, CUDA_R_64F) \
    VECTOR(cublasNrm2Ex, READ, 3, ARGUMENT(4), 0, 2, 0, 5) \
    SCALAR(cublasNrm2Ex, WRITE, 6, ARGUMENT(7)) \
    NORM(cublasSasum_v2, CUDA_R_32F) \
    NORM(cublasDasum_v2, CUDA_R_64F) \
    GEAM(cublasSgeam, CUDA_R_32F) \
    GEAM(cublasDgeam, CUDA_R_64F)
/* clang-format on */
