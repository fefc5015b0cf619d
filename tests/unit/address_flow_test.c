/* Whether machine code (sm_90, as nvdisasm -hex shows it) may leave the address of a variable in memory. */
#include "check.h"
#include "globals/address_flow.h"

struct instruction {
    uint64_t low, high;
};

#define ADDRESS {0x0100520000067ab9, 0x000fe20000000a00}     /* ULDC.64 UR6, c[0x4][0x148] */
#define BLOCK_NUMBER {0x00000000000679c3, 0x000e220000008800} /* S2UR UR6, SR_CgaCtaId */
#define SCALED {0x0000000506057291, 0x001fe4000f8ec03f}       /* ULEA UR5, UR6, UR5, 0x18 */
#define ADDED {0x000000055f347c11, 0x000fe4000f8e18ff}        /* LEA R52, R95, UR5, 0x3 */
#define STORED {0x000000340a007388, 0x004fe80000000a00}       /* STS.64 [R10], R52 */
#define NOTHING {0x0000000000007918, 0x000fc00000000000}      /* NOP */
#define END {0x000000000000794d, 0x000fea0003800000}          /* EXIT */

/* The first instruction gets the address. */
static bool is_stored(const struct instruction *code, size_t bytes)
{
    bool makes[16] = {true};
    return tsr_address_is_stored((struct tsr_span){(const uint8_t *)code, bytes}, makes);
}

TEST(what_is_made_of_an_address_counts_as_one)
{
    const struct instruction code[] = {ADDRESS, NOTHING, SCALED, ADDED, STORED, END};
    CHECK(is_stored(code, sizeof code));
}

TEST(a_uniform_register_that_is_set_anew_holds_no_address_any_more)
{
    const struct instruction code[] = {ADDRESS, BLOCK_NUMBER, SCALED, ADDED, STORED, END};
    CHECK(!is_stored(code, sizeof code));
}
