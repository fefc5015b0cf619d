/* base/hash: fixed answers, which tests/unit/test_content.py finds in Python, too; every byte and the length count. */
#include "check.h"

#include "base/hash.h"

#include <string.h>

TEST(answers_are_the_same_everywhere)
{
    char bytes[1000];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    CHECK_EQ(tsr_hash("", 0), 1);
    CHECK_EQ(tsr_hash("a", 1), 0x652bd6e0dec984f4ull);
    CHECK_EQ(tsr_hash(bytes, 1000), 0x99b441864e57c5a6ull);
    CHECK_EQ(tsr_hash(bytes + 1, 511), 0x33459ae8fc5399afull);
}

TEST(every_byte_and_the_length_count)
{
    char bytes[67] = {0};
    uint64_t seen[sizeof bytes * 2];
    unsigned count = 0;
    for (size_t length = 1; length <= sizeof bytes; length++)
        seen[count++] = tsr_hash(bytes, length);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        seen[count++] = tsr_hash(bytes, sizeof bytes);
        bytes[i] = 0;
    }
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
}
