/*
 * Entry points of NVIDIA's libraries. X(family, function); all return an int that is 0 on success.
 *
 *   TSR_LIBRARY_CALLS  those that launch work: a policy can name them (library_call). Read by C and, line by line, by Python.
 *   TSR_LIBRARY_NOTES  those that say something about the operands of later calls. W(family, function)
 */
#ifndef TESSERA_LIBRARY_CALLS_H
#define TESSERA_LIBRARY_CALLS_H

/* clang-format off */
#define TSR_LIBRARY_CALLS(X) \
    X(cublas, cublasSgemm_v2) \
    X(cublas, cublasDgemm_v2) \
    X(cublas, cublasCgemm_v2) \
    X(cublas, cublasZgemm_v2) \
    X(cublas, cublasHgemm) \
    X(cublas, cublasSgemmEx) \
    X(cublas, cublasGemmEx) \
    X(cublas, cublasGemmEx_64) \
    X(cublas, cublasSgemmBatched) \
    X(cublas, cublasDgemmBatched) \
    X(cublas, cublasGemmBatchedEx) \
    X(cublas, cublasSgemmStridedBatched) \
    X(cublas, cublasDgemmStridedBatched) \
    X(cublas, cublasCgemmStridedBatched) \
    X(cublas, cublasZgemmStridedBatched) \
    X(cublas, cublasHgemmStridedBatched) \
    X(cublas, cublasGemmStridedBatchedEx) \
    X(cublas, cublasGemmGroupedBatchedEx) \
    X(cublas, cublasSgemv_v2) \
    X(cublas, cublasDgemv_v2) \
    X(cublas, cublasCgemv_v2) \
    X(cublas, cublasZgemv_v2) \
    X(cublas, cublasSger_v2) \
    X(cublas, cublasDger_v2) \
    X(cublas, cublasSsyrk_v2) \
    X(cublas, cublasDsyrk_v2) \
    X(cublas, cublasStrsm_v2) \
    X(cublas, cublasDtrsm_v2) \
    X(cublas, cublasStrsmBatched) \
    X(cublas, cublasDtrsmBatched) \
    X(cublas, cublasSgetrfBatched) \
    X(cublas, cublasDgetrfBatched) \
    X(cublas, cublasSgetrsBatched) \
    X(cublas, cublasDgetrsBatched) \
    X(cublas, cublasSaxpy_v2) \
    X(cublas, cublasDaxpy_v2) \
    X(cublas, cublasAxpyEx) \
    X(cublas, cublasSscal_v2) \
    X(cublas, cublasDscal_v2) \
    X(cublas, cublasScalEx) \
    X(cublas, cublasSdot_v2) \
    X(cublas, cublasDdot_v2) \
    X(cublas, cublasDotEx) \
    X(cublas, cublasSnrm2_v2) \
    X(cublas, cublasDnrm2_v2) \
    X(cublas, cublasNrm2Ex) \
    X(cublas, cublasSasum_v2) \
    X(cublas, cublasDasum_v2) \
    X(cublas, cublasSgeam) \
    X(cublas, cublasDgeam) \
    X(cublasLt, cublasLtMatmul) \
    X(cublasLt, cublasLtMatrixTransform) \
    X(cudnn, cudnnBackendExecute) \
    X(cudnn, cudnnConvolutionForward) \
    X(cudnn, cudnnConvolutionBackwardData) \
    X(cudnn, cudnnConvolutionBackwardFilter) \
    X(cudnn, cudnnConvolutionBackwardBias) \
    X(cudnn, cudnnConvolutionBiasActivationForward) \
    X(cudnn, cudnnActivationForward) \
    X(cudnn, cudnnActivationBackward) \
    X(cudnn, cudnnSoftmaxForward) \
    X(cudnn, cudnnSoftmaxBackward) \
    X(cudnn, cudnnPoolingForward) \
    X(cudnn, cudnnPoolingBackward) \
    X(cudnn, cudnnBatchNormalizationForwardInference) \
    X(cudnn, cudnnBatchNormalizationForwardTraining) \
    X(cudnn, cudnnBatchNormalizationForwardTrainingEx) \
    X(cudnn, cudnnBatchNormalizationBackward) \
    X(cudnn, cudnnBatchNormalizationBackwardEx) \
    X(cudnn, cudnnNormalizationForwardInference) \
    X(cudnn, cudnnNormalizationForwardTraining) \
    X(cudnn, cudnnNormalizationBackward) \
    X(cudnn, cudnnDropoutForward) \
    X(cudnn, cudnnDropoutBackward) \
    X(cudnn, cudnnRNNForward) \
    X(cudnn, cudnnRNNBackwardData_v8) \
    X(cudnn, cudnnRNNBackwardWeights_v8) \
    X(cudnn, cudnnMultiHeadAttnForward) \
    X(cudnn, cudnnMultiHeadAttnBackwardData) \
    X(cudnn, cudnnMultiHeadAttnBackwardWeights) \
    X(cudnn, cudnnCTCLoss) \
    X(cudnn, cudnnCTCLoss_v8) \
    X(cudnn, cudnnAddTensor) \
    X(cudnn, cudnnOpTensor) \
    X(cudnn, cudnnReduceTensor) \
    X(cudnn, cudnnScaleTensor) \
    X(cudnn, cudnnTransformTensor) \
    X(cudnn, cudnnTransformTensorEx) \
    X(cufft, cufftExecC2C) \
    X(cufft, cufftExecR2C) \
    X(cufft, cufftExecC2R) \
    X(cufft, cufftExecZ2Z) \
    X(cufft, cufftExecD2Z) \
    X(cufft, cufftExecZ2D) \
    X(cufft, cufftXtExec) \
    X(cusparse, cusparseSpMV) \
    X(cusparse, cusparseSpMM) \
    X(cusparse, cusparseSpSV_solve) \
    X(cusparse, cusparseSpSM_solve) \
    X(cusparse, cusparseSDDMM) \
    X(cusparse, cusparseSpGEMM_compute) \
    X(curand, curandGenerate) \
    X(curand, curandGenerateLongLong) \
    X(curand, curandGenerateUniform) \
    X(curand, curandGenerateUniformDouble) \
    X(curand, curandGenerateNormal) \
    X(curand, curandGenerateNormalDouble) \
    X(nccl, ncclAllReduce) \
    X(nccl, ncclBroadcast) \
    X(nccl, ncclBcast) \
    X(nccl, ncclReduce) \
    X(nccl, ncclAllGather) \
    X(nccl, ncclReduceScatter) \
    X(nccl, ncclSend) \
    X(nccl, ncclRecv) \
    X(nccl, ncclGroupEnd)

#define TSR_LIBRARY_NOTES(W) \
    W(cublas, cublasCreate_v2) \
    W(cublas, cublasDestroy_v2) \
    W(cublas, cublasSetStream_v2) \
    W(cublas, cublasSetWorkspace_v2) \
    W(cublasLt, cublasLtCreate) \
    W(cudnn, cudnnCreate) \
    W(cudnn, cudnnBackendSetAttribute) \
    W(cudnn, cudnnBackendGetAttribute) \
    W(cudnn, cudnnBackendDestroyDescriptor) \
    W(cufft, cufftPlan1d) \
    W(cufft, cufftPlan2d) \
    W(cufft, cufftPlan3d) \
    W(cufft, cufftPlanMany) \
    W(cufft, cufftMakePlan1d) \
    W(cufft, cufftMakePlan2d) \
    W(cufft, cufftMakePlan3d) \
    W(cufft, cufftMakePlanMany) \
    W(cufft, cufftMakePlanMany64) \
    W(cufft, cufftXtMakePlanMany) \
    W(cufft, cufftXtSetCallback) \
    W(cufft, cufftXtSetJITCallback) \
    W(cufft, cufftSetWorkArea) \
    W(cufft, cufftDestroy) \
    W(cusparse, cusparseCreate) \
    W(cusparse, cusparseSpMV_preprocess) \
    W(cusparse, cusparseSpMM_preprocess) \
    W(cusparse, cusparseSDDMM_preprocess) \
    W(nccl, ncclCommInitRank) \
    W(nccl, ncclCommInitRankConfig) \
    W(nccl, ncclCommInitAll) \
    W(nccl, ncclGroupStart)
/* clang-format on */

#define TSR_LIBRARY_CALLS_MOST 256

#endif
