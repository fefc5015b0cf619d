/* Counting launches: threads that have a part of the policy's counters for themselves, and those that come when these are taken. */
#include "object/session.c"

#include "check.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTS (sizeof((struct tsr_policy *)0)->counts / sizeof((struct tsr_policy *)0)->counts[0])
#define THREADS (2 * PARTS + 5)
#define COUNTED 20000u

uint32_t tsr_engaged;

static struct tsr_policy *policy;
static struct tsr_session session;

static void begin(void)
{
    policy = mmap(NULL, sizeof *policy, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(policy != MAP_FAILED);
    session = (struct tsr_session){.policy = policy};
    tsr_session_counts_here = (struct tsr_session_counting){0};
}

static uint64_t launches(uint32_t gpu)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < PARTS; i++)
        sum += policy->counts[i].launches[gpu];
    return sum;
}

static void *count(void *of)
{
    for (unsigned i = 0; i < COUNTED; i++)
        tsr_session_count(&tsr_session_counts(of)->launches[1], 1);
    tsr_session_count(&tsr_session_counts(of)->launches[1], UINT64_MAX);
    return NULL;
}

static void count_in_threads(struct tsr_session *of, unsigned threads)
{
    pthread_t all[THREADS];
    for (unsigned i = 0; i < threads; i++)
        CHECK_EQ(pthread_create(&all[i], NULL, count, of), 0);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
}

TEST(nothing_is_lost_when_there_are_more_threads_than_parts)
{
    begin();
    count_in_threads(&session, THREADS);
    CHECK_EQ(launches(1), THREADS * (COUNTED - 1ull));
}

TEST(the_first_threads_have_parts_of_their_own)
{
    begin();
    tsr_session_counts(&session);
    CHECK(tsr_session_counts_here.alone);
    policy->counting = PARTS / 2;
    tsr_session_counts_here = (struct tsr_session_counting){0};
    CHECK(tsr_session_counts(&session) >= &policy->counts[PARTS / 2]);
    CHECK(!tsr_session_counts_here.alone);
}

TEST(the_number_of_threads_never_begins_anew)
{
    begin();
    policy->counting = UINT32_MAX - 1;
    for (unsigned i = 0; i < 4; i++) {
        tsr_session_counts_here = (struct tsr_session_counting){0};
        tsr_session_counts(&session);
        CHECK(!tsr_session_counts_here.alone);
    }
}

/* The forked thread's part is the parent's; the child's session is a new one. */
TEST(a_forked_child_counts_apart_from_its_parent)
{
    begin();
    struct tsr_policy_counts *parents = tsr_session_counts(&session);
    pid_t child = fork();
    if (child == 0) {
        static struct tsr_session own;
        own = session;
        bool apart = tsr_session_counts(&own) != parents;
        count(&own);
        _exit(apart ? 0 : 1);
    }
    count(&session);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(launches(1), 2 * (COUNTED - 1ull));
}
