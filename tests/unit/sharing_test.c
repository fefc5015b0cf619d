/* Which launches share their GPU with the work of other streams. */
#include "schedule/sharing.c"

#include "check.h"

#define FIRST ((CUstream)0x100)
#define SECOND ((CUstream)0x200)

static struct tsr_sharing sharing;

TEST(a_stream_alone_shares_with_nobody)
{
    sharing = (struct tsr_sharing){0};
    CHECK(!tsr_sharing_is_shared(&sharing, FIRST, 0, 0));
    for (unsigned i = 1; i < 100; i++)
        tsr_sharing_give(&sharing, FIRST, 1000.0 * i);
    CHECK(!tsr_sharing_is_shared(&sharing, FIRST, 0, 99000));
    CHECK(tsr_sharing_is_shared(&sharing, SECOND, 0, 99000));
    CHECK_EQ(sharing.turns, 1);
    CHECK_EQ(tsr_sharing_turns(&sharing, FIRST), 1);
    CHECK_EQ(tsr_sharing_turns(&sharing, SECOND), 2);
}

TEST(another_streams_work_runs_beside_it_until_it_is_done_however_many_launches_follow)
{
    sharing = (struct tsr_sharing){0};
    tsr_sharing_give(&sharing, FIRST, 50000);
    for (unsigned i = 1; i < 1000; i++)
        tsr_sharing_give(&sharing, SECOND, 50000 + 1000.0 * i);
    CHECK(tsr_sharing_is_shared(&sharing, SECOND, 20000, 1049000));
    CHECK(!tsr_sharing_is_shared(&sharing, SECOND, 60000, 1049000));
    CHECK(tsr_sharing_is_shared(&sharing, FIRST, 60000, 1049000));
    CHECK(!tsr_sharing_is_shared(&sharing, FIRST, 60000, 55000)); /* the host has seen that all is done */
}
