/*
 * An emulated machine for C unit tests: two small devices that reach each other. The file is made before main, so that the
 * options find its name whenever they are first read. Include it once, before the tests.
 */
#ifndef TESSERA_TESTS_EMULATED_H
#define TESSERA_TESTS_EMULATED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tessera/machine.h>

#define EMULATED_MEMORY_BYTES (64ull << 20)

/* The test's own view of the live part. */
static struct tsr_machine *emulated;

static void emulated_device(struct tsr_device_desc *desc, unsigned number)
{
    snprintf(desc->name, sizeof desc->name, "Test device %u", number);
    memset(desc->uuid, (int)(0x40 + number), sizeof desc->uuid);
    desc->compute_major = 9;
    desc->sm_count = 32;
    desc->clock_khz = 1000000;
    desc->memory_clock_khz = 1000000;
    desc->memory_bus_bits = 1024;
    desc->max_threads_per_sm = 2048;
    desc->max_blocks_per_sm = 32;
    desc->registers_per_sm = 65536;
    desc->shared_per_sm_bytes = 233472;
    desc->shared_per_block_bytes = 49152;
    desc->shared_per_block_optin_bytes = 232448;
    desc->memory_bytes = EMULATED_MEMORY_BYTES;
    desc->memory_bytes_per_s = 1000000000000ull;
    desc->memory_efficiency_permille = 900;
    desc->copy_engines = 2;
    desc->l2_bytes = 32 << 20;
    desc->l2_bytes_per_s = 4000000000000ull;
    desc->fp32_ops_per_sm_clk = 256;
    desc->fp64_ops_per_sm_clk = 128;
    desc->fp16_ops_per_sm_clk = 512;
    desc->int32_ops_per_sm_clk = 128;
    desc->special_ops_per_sm_clk = 32;
    desc->tensor_fp16_ops_per_sm_clk = 4096;
    desc->tensor_tf32_ops_per_sm_clk = 2048;
    desc->tensor_int8_ops_per_sm_clk = 8192;
    desc->tensor_fp64_ops_per_sm_clk = 256;
    desc->launch_latency_ns = 2000;
    desc->dram_latency_ns = 500;
    desc->pci_bus = number + 1;
}

__attribute__((constructor)) static void emulated_make(void)
{
    char name[64];
    int descriptor = memfd_create("machine", 0);
    if (descriptor < 0 || ftruncate(descriptor, sizeof *emulated) != 0)
        exit(2);
    emulated = mmap(NULL, sizeof *emulated, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (emulated == MAP_FAILED)
        exit(2);
    emulated->magic = TSR_MACHINE_MAGIC;
    emulated->version = TSR_MACHINE_VERSION;
    emulated->bytes = sizeof *emulated;
    emulated->device_count = 2;
    emulated->host_call_ns = 100;
    for (unsigned i = 0; i < 2; i++) {
        emulated_device(&emulated->devices[i], i);
        emulated->host_links[i] = (struct tsr_link_desc){TSR_LINK_PCIE, 0, 25000000000ull, 1000, 0};
        emulated->links[i * TSR_MACHINE_DEVICES + 1 - i] = (struct tsr_link_desc){TSR_LINK_NVLINK, 1, 200000000000ull, 800, 0};
    }
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), descriptor);
    setenv("TESSERA_MACHINE", name, 1);
}

#endif
