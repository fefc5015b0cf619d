/* What a stream handle means, and what the stubs answer. */
#include "api/driver.h"
#include "api/unsupported.h"

#include "check.h"

TEST(null_stream_is_the_legacy_one)
{
    CHECK(tsr_driver_stream(NULL) == CU_STREAM_LEGACY);
}

TEST(null_stream_in_a_per_thread_form)
{
    tsr_driver_per_thread = 1;
    CHECK(tsr_driver_stream(NULL) == CU_STREAM_PER_THREAD);
    CHECK(tsr_driver_stream(CU_STREAM_LEGACY) == CU_STREAM_LEGACY);
    tsr_driver_per_thread = 0;
}

TEST(other_streams_stay)
{
    CUstream stream = (CUstream)(uintptr_t)0x1234560;
    CHECK(tsr_driver_stream(stream) == stream);
    CHECK(tsr_driver_stream(CU_STREAM_PER_THREAD) == CU_STREAM_PER_THREAD);
}

TEST(unsupported_functions_are_told_once)
{
    int told = 0;
    CHECK_EQ(tsr_driver_unsupported("cuNothing", &told), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(told, 1);
    CHECK_EQ(tsr_driver_unsupported("cuNothing", &told), CUDA_ERROR_NOT_SUPPORTED);
}
