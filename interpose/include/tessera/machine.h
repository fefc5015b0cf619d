/*
 * The emulated machine: one file, mapped shared by every process that uses it.
 *
 * `tessera-run --emulate` writes it (from the catalogue, see controlplane/machine/emulate.py), keeps it open as a memfd and names it in
 * TESSERA_MACHINE as /proc/<pid>/fd/<n>; the emulated driver maps it in cuInit. Nothing is left behind, however anybody dies.
 * The first part is written once, before any process starts, and constant from then on. The second part is live: every field says
 * who may write it; all live fields are accessed with atomic operations.
 *
 * Read by C and, through cffi, by Python: fixed-width integers and arrays only, no conditional compilation inside the marked part.
 * Bump TSR_MACHINE_VERSION whenever the layout or a meaning changes; both sides refuse another version.
 */
#ifndef TESSERA_MACHINE_H
#define TESSERA_MACHINE_H

#include <stdint.h>

#define TSR_MACHINE_MAGIC 0x3143414d52535454ull /* "TTSRMAC1" in memory order is irrelevant: compared as a number */
#define TSR_MACHINE_VERSION 6u
#define TSR_MACHINE_DEVICES 16
#define TSR_MACHINE_PROCESSES 256
#define TSR_MACHINE_KERNELS 4096 /* rows of the "what ran where" table; further kernels share the last row, named "(others)" */

/* cffi: begin */
enum tsr_link_kind {
    TSR_LINK_NONE = 0, /* device to itself, or no path at all */
    TSR_LINK_PCIE = 1, /* through the host; peer_access tells whether direct access is possible */
    TSR_LINK_NVLINK = 2,
};

enum tsr_host_time { TSR_HOST_FROZEN = 0, TSR_HOST_REAL = 1 };

/* Rates are what one SM issues per clock, in operations (one fused multiply-add = 2), dense. */
struct tsr_device_desc {
    char name[64];
    uint8_t uuid[16];
    uint32_t compute_major, compute_minor;
    uint32_t sm_count;
    uint32_t clock_khz; /* sustained boost */
    uint32_t memory_clock_khz;
    uint32_t memory_bus_bits;
    uint32_t max_threads_per_sm;
    uint32_t max_blocks_per_sm;
    uint32_t registers_per_sm;
    uint32_t shared_per_sm_bytes;
    uint32_t shared_per_block_bytes; /* without opting in: 49152 */
    uint32_t shared_per_block_optin_bytes;
    uint64_t memory_bytes;
    uint64_t memory_bytes_per_s;         /* peak DRAM bandwidth */
    uint32_t memory_efficiency_permille; /* share of the peak that a streaming kernel reaches */
    uint32_t copy_engines;
    uint64_t l2_bytes;
    uint64_t l2_bytes_per_s;
    uint32_t fp32_ops_per_sm_clk, fp64_ops_per_sm_clk, fp16_ops_per_sm_clk, int32_ops_per_sm_clk, special_ops_per_sm_clk;
    uint32_t tensor_fp16_ops_per_sm_clk, tensor_tf32_ops_per_sm_clk, tensor_int8_ops_per_sm_clk, tensor_fp64_ops_per_sm_clk;
    uint32_t launch_latency_ns; /* smallest duration of a kernel, seen on its stream */
    uint32_t dram_latency_ns;
    uint32_t pci_domain, pci_bus, pci_device;
    uint32_t slow_permille; /* what kernels and memsets take that may begin from slow_from_ns on; 0: as ever */
    uint64_t slow_from_ns;
};

/* links[a * TSR_MACHINE_DEVICES + b]: traffic from a to b; host_links[a]: between a and host memory, per direction. */
struct tsr_link_desc {
    uint32_t kind;        /* enum tsr_link_kind */
    uint32_t peer_access; /* kernels on a may address memory of b */
    uint64_t bytes_per_s; /* achievable, one direction */
    uint32_t latency_ns;
    uint32_t corrupts; /* 1: of each copy from a to b without host memory the first byte arrives wrong, without an error */
};

/* One row per (device, kernel name); claimed and counted by the emulated driver. */
struct tsr_kernel_row {
    uint64_t launches;   /* atomic add */
    uint64_t virtual_ns; /* atomic add: time on the device */
    uint32_t state;      /* 0 free, 1 being written, 2 valid */
    uint32_t device;
    char name[112]; /* possibly cut, NUL-terminated */
};

/* One row per process that called cuInit; claimed by compare-and-swap of pid. Says how much memory a killed process still holds. */
struct tsr_process_row {
    uint64_t start_ticks; /* field 22 of /proc/<pid>/stat: tells a reused pid from the process that claimed the row */
    uint32_t pid;         /* 0: free */
    uint32_t reserved;
    uint64_t memory_used_bytes[16]; /* atomic add/sub, by that process; part of tsr_device_live.memory_used_bytes */
};

struct tsr_device_live {
    uint64_t memory_used_bytes;    /* atomic add/sub; all processes */
    uint64_t launches;             /* atomic add */
    uint64_t copies, copied_bytes; /* atomic add */
    uint64_t busy_ns;              /* atomic add: virtual time kernels ran */
    uint64_t last_ns;              /* atomic max: virtual end of the last operation */
    uint64_t local_bytes;  /* atomic add: lines of its own memory that its kernels read and wrote, each once per launch */
    uint64_t remote_bytes; /* atomic add: the same of other GPUs' memory */
};

/* When values that streams of any process wait for were written: cuStreamWriteValue and its kin. */
struct tsr_value_write {
    uint64_t value, ns; /* atomic; what, and at which virtual time */
};

struct tsr_value_row {
    uint64_t place;                      /* atomic; identity of the physical memory, 0: free */
    uint64_t count;                      /* atomic, release; writes so far */
    struct tsr_value_write writes[1024]; /* the latest; number n is writes[n % 1024] */
};

struct tsr_machine {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; /* sizeof(struct tsr_machine) */
    uint32_t device_count;
    uint32_t host_time;      /* enum tsr_host_time */
    uint32_t host_call_ns;   /* frozen host time: what one driver call costs the calling thread */
    uint32_t worker_threads; /* per process; 0 = number of CPUs the process may use */
    struct tsr_device_desc devices[16];
    struct tsr_link_desc links[256];
    struct tsr_link_desc host_links[16];
    uint8_t constant_end[1888]; /* the live part begins on a page of its own: a process may see fewer devices than there are */
    /* live */
    uint64_t processes;  /* atomic add: processes that called cuInit */
    uint64_t virtual_ns; /* atomic max over all processes: how far virtual time has come */
    struct tsr_device_live live[16];
    struct tsr_kernel_row kernels[4096];
    struct tsr_process_row process[256];
    struct tsr_value_row values[4096];
};
/* cffi: end */

#endif
