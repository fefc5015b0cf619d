/* Which launches are samples of how long their class takes, and which share their GPU with other streams' work. */
#include "schedule/samples.h"

#include "check.h"

#define FIRST ((CUstream)0x100)
#define SECOND ((CUstream)0x200)

static struct tsr_samples samples;

TEST(a_stream_alone_shares_with_nobody)
{
    samples = (struct tsr_samples){0};
    CHECK(!tsr_samples_shared(&samples, 1, FIRST, 0, 0));
    for (unsigned i = 1; i < 100; i++)
        tsr_samples_give(&samples, 1, FIRST, 1000.0 * i);
    CHECK(!tsr_samples_shared(&samples, 1, FIRST, 0, 99000));
    CHECK(tsr_samples_shared(&samples, 1, SECOND, 0, 99000));
    CHECK(!tsr_samples_shared(&samples, 2, SECOND, 0, 0));
}

TEST(another_streams_work_runs_beside_it_until_it_is_done_however_many_launches_follow)
{
    samples = (struct tsr_samples){0};
    tsr_samples_give(&samples, 1, FIRST, 50000);
    for (unsigned i = 1; i < 1000; i++)
        tsr_samples_give(&samples, 1, SECOND, 50000 + 1000.0 * i);
    CHECK(tsr_samples_shared(&samples, 1, SECOND, 20000, 1049000));
    CHECK(!tsr_samples_shared(&samples, 1, SECOND, 60000, 1049000));
    CHECK(tsr_samples_shared(&samples, 1, FIRST, 60000, 1049000));
    CHECK(!tsr_samples_shared(&samples, 1, FIRST, 60000, 55000)); /* the host has seen that all is done */
}
