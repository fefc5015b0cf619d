#include "clock.h"

#include "../exec/exec.h"

#define SCHEDULERS 4u              /* per SM */
#define SM_BYTES_PER_CLOCK 64u     /* between L2 and one SM */
#define DRAM_BYTES_PER_SECTOR 64u  /* what DRAM moves for a requested sector of 32 bytes whose neighbours nobody wants */
#define PAGEABLE_BYTES_PER_S 11000000000ull /* pageable host memory goes through a staging buffer that a CPU core fills */

/* bytes x 1e9 / rate without overflow for any size that fits an address space; a rate of 0 costs nothing. */
static uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_per_s)
{
    return bytes_per_s ? (uint64_t)((unsigned __int128)bytes * 1000000000u / bytes_per_s) : 0;
}

static uint64_t cycles_ns(uint64_t cycles, uint32_t clock_khz)
{
    return clock_khz ? (uint64_t)((unsigned __int128)cycles * 1000000u / clock_khz) : 0;
}

static uint64_t memory_rate(const struct tsr_device_desc *device)
{
    uint64_t permille = device->memory_efficiency_permille ? device->memory_efficiency_permille : 1000;
    return device->memory_bytes_per_s / 1000 * permille;
}

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return by ? (value + by - 1) / by : value;
}

static const struct tsr_link_desc *link_between(const struct tsr_machine *machine, uint32_t from, uint32_t to)
{
    if (from == TSR_LOCATION_HOST || to == TSR_LOCATION_HOST)
        return &machine->host_links[from == TSR_LOCATION_HOST ? to : from];
    return &machine->links[from * TSR_MACHINE_DEVICES + to];
}

/* Lines of which few sectors are used are not moved whole. */
static uint64_t dram_bytes(const struct tsr_cost *cost, uint64_t lines_bytes)
{
    uint64_t most = cost->l2_bytes / 32 * DRAM_BYTES_PER_SECTOR;
    return most && most < lines_bytes ? most : lines_bytes;
}

/* Each location is read and written beside the others; the slowest decides. Links carry both directions at once, DRAM does not. */
static uint64_t memory_ns(const struct tsr_machine *machine, uint32_t device, const struct tsr_cost *cost)
{
    uint64_t longest = 0;
    for (uint32_t location = 0; location <= TSR_LOCATION_HOST; location++) {
        uint64_t read = cost->dram_read_bytes[location], written = cost->dram_write_bytes[location], ns;
        if (!(read | written))
            continue;
        if (location == device) {
            ns = transfer_ns(dram_bytes(cost, read + written), memory_rate(&machine->devices[device]));
        } else {
            const struct tsr_link_desc *link = link_between(machine, location, device);
            ns = transfer_ns(read > written ? read : written, link->bytes_per_s) + link->latency_ns;
        }
        longest = ns > longest ? ns : longest;
    }
    return longest;
}

struct tsr_kernel_time tsr_clock_kernel(const struct tsr_machine *machine, uint32_t device, uint32_t sm_count,
                                        const struct tsr_cost *cost)
{
    const struct tsr_device_desc *desc = &machine->devices[device];
    uint64_t sms = sm_count && sm_count < desc->sm_count ? sm_count : desc->sm_count;
    uint64_t blocks = cost->blocks ? cost->blocks : 1;
    uint64_t used_sms = blocks < sms ? blocks : sms;
    uint64_t blocks_per_sm = divide_up(blocks, sms); /* on the SM that gets most */
    uint64_t resident = cost->resident_blocks_per_sm ? cost->resident_blocks_per_sm : 1;
    uint64_t waves = divide_up(blocks, resident * sms);
    uint64_t warps_at_once = divide_up(cost->warps, blocks) * (blocks_per_sm < resident ? blocks_per_sm : resident);
    uint64_t schedulers = warps_at_once < SCHEDULERS ? (warps_at_once ? warps_at_once : 1) : SCHEDULERS;

    uint64_t issue = cycles_ns(divide_up(cost->issue_cycles, blocks) * blocks_per_sm / schedulers, desc->clock_khz);
    uint64_t memory = memory_ns(machine, device, cost);
    uint64_t l2 = transfer_ns(cost->l2_bytes, desc->l2_bytes_per_s);
    uint64_t l2_port = cycles_ns(cost->l2_bytes / (used_sms * SM_BYTES_PER_CLOCK), desc->clock_khz);
    uint64_t shared = cycles_ns(divide_up(cost->shared_cycles, blocks) * blocks_per_sm, desc->clock_khz);
    /* A block that reads memory waits once for DRAM; its other waits are for caches and counted by the interpreter. */
    bool reads = cost->dram_read_bytes[device];
    uint64_t block_ns = cycles_ns(cost->longest_block_cycles, desc->clock_khz) + (reads ? desc->dram_latency_ns : 0);
    uint64_t latency = cost->longest_block_cycles ? block_ns * waves : 0;

    struct tsr_kernel_time time = {0, 1, "launch"};
    const struct {
        uint64_t ns;
        const char *bound;
    } parts[] = {
        {issue, "issue"}, {memory, "memory"}, {l2 > l2_port ? l2 : l2_port, "l2"}, {shared, "shared"}, {latency, "latency"}};
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].ns > time.ns) {
            time.ns = parts[i].ns;
            time.bound = parts[i].bound;
        }
    if (time.ns < desc->launch_latency_ns) {
        time.ns = desc->launch_latency_ns;
        time.bound = "launch";
    }
    uint64_t permille = blocks * 1000 / (resident * (sms ? sms : 1));
    uint64_t whole = sms * 1000 / (desc->sm_count ? desc->sm_count : 1);
    permille = permille < whole ? permille : whole;
    time.sm_permille = (uint32_t)(permille < 1 ? 1 : permille > 1000 ? 1000 : permille);
    return time;
}

uint64_t tsr_clock_copy_ns(const struct tsr_machine *machine, uint32_t from, uint32_t to, uint64_t bytes, int pinned)
{
    if (from == TSR_LOCATION_HOST && to == TSR_LOCATION_HOST)
        return transfer_ns(bytes, PAGEABLE_BYTES_PER_S);
    if (from == to) {
        const struct tsr_device_desc *desc = &machine->devices[from];
        uint64_t ns = transfer_ns(2 * bytes, memory_rate(desc));
        return ns > desc->launch_latency_ns ? ns : desc->launch_latency_ns;
    }
    const struct tsr_link_desc *link = link_between(machine, from, to);
    bool host = from == TSR_LOCATION_HOST || to == TSR_LOCATION_HOST;
    if (!host && !link->bytes_per_s) { /* no path: through the host, both halves overlapping */
        uint64_t out = tsr_clock_copy_ns(machine, from, TSR_LOCATION_HOST, bytes, 1);
        uint64_t in = tsr_clock_copy_ns(machine, TSR_LOCATION_HOST, to, bytes, 1);
        return (out > in ? out : in) + machine->host_links[to].latency_ns;
    }
    uint64_t rate = link->bytes_per_s;
    if (host && !pinned && rate > PAGEABLE_BYTES_PER_S)
        rate = PAGEABLE_BYTES_PER_S;
    return link->latency_ns + transfer_ns(bytes, rate);
}

uint64_t tsr_clock_memset_ns(const struct tsr_machine *machine, uint32_t device, uint64_t bytes)
{
    if (device >= TSR_MACHINE_DEVICES)
        return transfer_ns(bytes, PAGEABLE_BYTES_PER_S);
    const struct tsr_device_desc *desc = &machine->devices[device];
    uint64_t ns = transfer_ns(bytes, memory_rate(desc));
    return ns > desc->launch_latency_ns ? ns : desc->launch_latency_ns;
}

uint64_t tsr_clock_slowed_ns(const struct tsr_machine *machine, uint32_t device, uint64_t ns, uint64_t ready_ns)
{
    const struct tsr_device_desc *desc = &machine->devices[device];
    if (!desc->slow_permille || ready_ns < desc->slow_from_ns)
        return ns;
    return (uint64_t)((unsigned __int128)ns * desc->slow_permille / 1000);
}
