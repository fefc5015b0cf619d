/*
 * Records: what the shim saw an application do, written for the control plane to read.
 *
 * A process that initialises CUDA connects to the SOCK_SEQPACKET socket that TESSERA_RECORDS names (base/socket.h) and sends a
 * tsr_records_message HELLO with the memory file of its journal; each thread owns a ring, whose memory file follows in a RING message when
 * the thread makes its first record. If the control plane wants code (TESSERA_CODE), every image that the application loads follows in a
 * CODE message, with a memory file or the file that it lies in; so does the PTX that the driver links into an image. The end of the connection is the end of the process; nothing is answered.
 *
 *   ring     one writer (the thread), one reader (the control plane); records of 64 bytes. A record that finds the ring full is counted in
 *            `lost` and gone: a slow or dead reader costs records, never time. The counters beside it count what was lost, too.
 *   journal  append-only definitions that records refer to by number (functions, contexts, ...), preceded by what is known of the
 *            process. Written under a lock of the process, read at any time up to `used`; never dropped while it has room.
 *
 * All memory is allocated when a file is made or grown, so that lack of memory shows there and never as SIGBUS. Files are memory files
 * sealed against shrinking, and the reader looks. Nobody trusts the other side's numbers: the reader
 * bounds every index. Local to one machine and one release: native byte order; both sides refuse another
 * version. Read by C and, through cffi, by Python; bump TSR_RECORDS_VERSION on any change.
 *
 * Time is in ticks of the CPU's time stamp counter; the journal's two anchors turn ticks into nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef TESSERA_RECORDS_H
#define TESSERA_RECORDS_H

#include <stdint.h>

#include <tessera/gpus.h>

#define TSR_RECORDS_MAGIC 0x4452434552525354ull
#define TSR_RECORDS_VERSION 9u
#define TSR_RING_RECORDS 16384u          /* a power of two */
#define TSR_RING_RECORDS_OFFSET 4096u    /* of the first record in the ring's file */
#define TSR_JOURNAL_ENTRIES_OFFSET 4096u /* of the first entry in the journal's file */
#define TSR_JOURNAL_BYTES (64u << 20)    /* most that a journal grows to */

/* cffi: begin */
enum tsr_records_message_kind { TSR_RECORDS_HELLO = 1, TSR_RECORDS_RING, TSR_RECORDS_CODE };

struct tsr_records_message { /* descriptor: the journal, the ring, or the file with the code */
    uint64_t magic;
    uint32_t version, kind;
    uint32_t pid;
    uint32_t number;        /* RING: the ring's, from 0 on. CODE: the module's, 0 for what is linked into an image */
    uint64_t hash;          /* CODE: of the image; what the file has there may have changed since */
    uint64_t linked_into;   /* CODE: hash of the image that the driver linked it into; 0: it is what was loaded */
    uint64_t offset, bytes; /* CODE: where the image lies in the file */
};

struct tsr_anchor { /* the same moment on three clocks */
    uint64_t ticks, monotonic_ns, realtime_ns;
};

enum tsr_gpu_clock {
    TSR_GPU_CLOCK_HOST = 0, /* times of TIME records are nanoseconds of CLOCK_MONOTONIC */
    TSR_GPU_CLOCK_OWN = 1   /* they are comparable with each other only (emulated GPUs with frozen host time) */
};

struct tsr_journal {
    uint64_t magic;
    uint32_t version, bytes; /* bytes: of this struct */
    uint32_t pid, parent;
    uint32_t gpu_clock;      /* enum tsr_gpu_clock */
    uint32_t driver_version; /* as cuDriverGetVersion has it: 13000 */
    uint32_t emulated;       /* 1: the GPUs are; they run PTX only */
    uint32_t reserved;
    struct tsr_anchor first;   /* when the process initialised CUDA */
    struct tsr_anchor last;    /* renewed now and then: for the rate of the ticks; read it until two readings agree */
    uint64_t used;             /* atomic, release: bytes of complete entries */
    uint64_t overhead_samples; /* atomic: launches of which the shim measured its own part */
    uint64_t overhead_ticks;   /* atomic: the sum of those parts */
    uint64_t timed_launches;   /* atomic: launches whose time on the GPU was asked for */
    uint64_t times_lost;       /* atomic: of these, whose answer could not be had */
    uint64_t
        came_back[TSR_GPUS]; /* atomic: launches counted on the GPU in a ring that ran at home instead: its executor was lost */
    uint32_t home;           /* where they ran */
    uint32_t reserved2;
    char program[256]; /* the executable's path, cut off if longer */
};

struct tsr_ring {
    uint64_t magic;
    uint32_t version, bytes; /* bytes: of this struct */
    uint32_t number;
    uint32_t thread; /* atomic: id of the thread that owns it now; 0: none, it has ended */
    uint64_t lost;   /* atomic: records that found no room */
    uint64_t launches
        [TSR_GPUS];    /* atomic: by the GPU that ran them, which has the machine's number; exact even if records are lost */
    uint64_t captured; /* atomic: launches recorded into graphs instead of run */
    uint64_t graph_launches; /* atomic */
    uint64_t graph_kernels;  /* atomic: kernels in the graphs that were launched */
    uint64_t kept_reasons
        [32];      /* atomic: launches, captured ones too, that a rule sent elsewhere and that stayed, by enum tsr_reason */
    uint64_t tail; /* atomic, release: records ever written; record n is at n % TSR_RING_RECORDS */
    uint8_t pad[64];
    uint64_t head; /* atomic, release: records ever read; written by the reader */
};

enum tsr_record_kind {
    TSR_RECORD_CALL =
        1, /* a driver call without a kind of its own; recorded only if it fails, at that moment: ticks is 0 or little */
    TSR_RECORD_THREAD, /* from here on the ring belongs to the thread u.thread.id */
    TSR_RECORD_LAUNCH,
    TSR_RECORD_ATTRIBUTE, /* of the launch before it, in order; as many as its u.launch.attributes */
    TSR_RECORD_GRAPH,     /* launch of a graph */
    TSR_RECORD_COPY,
    TSR_RECORD_MEMSET,
    TSR_RECORD_ALLOCATE,
    TSR_RECORD_FREE,
    TSR_RECORD_MODULE,       /* load or unload of a module or library: by `call` */
    TSR_RECORD_STREAM,       /* creation or destruction: by `call` */
    TSR_RECORD_EVENT_RECORD, /* cuEventRecord */
    TSR_RECORD_EVENT_WAIT,   /* cuStreamWaitEvent */
    TSR_RECORD_HOST,         /* a host function, a memory operation or another thing enqueued in a stream */
    TSR_RECORD_SYNCHRONIZE,  /* the host waited: for a stream, an event, a context */
    TSR_RECORD_CAPTURE,      /* begin or end of a stream's capture: by `call` */
    TSR_RECORD_TIME,         /* when an earlier launch or pull of this process ran on its GPU */
    TSR_RECORD_PARAMETERS,   /* of the launch before it, after its attributes, in order; as many bytes as its `detail` says */
    TSR_RECORD_LIBRARY,      /* of the launch before it, after its parameters: the library call that it happens in */
    TSR_RECORD_RANGE,        /* of that call's operands, after LIBRARY; as many as its u.library.ranges */
    TSR_RECORD_TENSOR,       /* a tensor map was encoded; BYTES follow: the map's 128, and extent and stride of each axis */
    TSR_RECORD_BYTES,        /* the next bytes that the LIBRARY (after its ranges) or TENSOR before it announces, in order */
    TSR_RECORD_PULL /* bytes that another GPU's copy held were pulled for the call that is recorded after it, in which it began */
};

enum tsr_record_flags {
    TSR_RECORD_CAPTURED = 1,   /* went into a graph; did not run */
    TSR_RECORD_REDIRECTED = 2, /* ran on another GPU than the application's */
    TSR_RECORD_KEPT_HOME = 4,  /* a rule sent it elsewhere and it stayed; u.launch.reason says why */
    TSR_RECORD_BLOCKING = 8,   /* the call waits for what it enqueues */
    TSR_RECORD_COOPERATIVE = 16,
    TSR_RECORD_UNDERSTOOD = 32, /* what its function reads and writes was known (tessera/templates.h) */
    TSR_RECORD_OTHER_GPUS = 64  /* of LIBRARY: the launch also reaches memory of other GPUs */
};

#define TSR_RECORD_RANGE_KIND 255u /* bits of a RANGE's `detail`: enum tsr_access_kind */

enum tsr_record_range { /* its other bits */
                        TSR_RECORD_RANGE_OVERWRITTEN = 256,
                        TSR_RECORD_RANGE_SCRATCH = 512,
                        TSR_RECORD_RANGE_INTERMEDIATE = 1024
};

enum tsr_reason { /* why a launch, of a function or a graph, that a rule sent elsewhere stayed home */
                  TSR_REASON_NONE = 0,
                  TSR_REASON_CAPTURE = 1,    /* it was recorded into a graph */
                  TSR_REASON_ATTRIBUTE = 2,  /* it has a launch attribute that is not translated */
                  TSR_REASON_PARAMETERS = 3, /* the layout of its parameters is unknown, or they are too many */
                  TSR_REASON_SHAPE = 4,      /* the driver would refuse it; the application is to get that error */
                  TSR_REASON_MODULE = 5,     /* its code cannot be sent elsewhere */
                  TSR_REASON_EXECUTOR = 6,   /* the executor cannot take it */
                  TSR_REASON_VERIFY = 7,     /* its results were different elsewhere */
                  TSR_REASON_VARIABLE = 8, /* it uses a variable of its module that is written, or that the application uses */
                  TSR_REASON_PRINTF = 9,   /* it prints: its lines would come in another order */
                  TSR_REASON_HEAP = 10,    /* it allocates or frees memory of the heap that kernels share */
                  TSR_REASON_CODE =
                      11, /* it calls code by an address from memory, or leaves one there: code lies elsewhere on each GPU */
                  TSR_REASON_ADDRESS =
                      12, /* it follows pointers in memory, where its module leaves addresses of variables or of the heap */
                  TSR_REASON_OTHER_GPUS = 13,   /* it is inside a call that reaches memory of other GPUs: NCCL's */
                  TSR_REASON_ARCHITECTURE = 14, /* its code does not exist for the other GPU */
                  TSR_REASON_RANGES = 15,       /* it is not known what it touches, and GPUs have copies of their own */
                  TSR_REASON_MEMORY_MANAGED =
                      16, /* from here on: a parameter points to memory that exists at home only: managed memory */
                  TSR_REASON_MEMORY_REGISTERED = 17,   /* the application's own memory, page-locked */
                  TSR_REASON_MEMORY_IPC = 18,          /* another process' memory, or another interface's */
                  TSR_REASON_MEMORY_VARIABLE = 19,     /* a module's variable */
                  TSR_REASON_MEMORY_OTHER_DEVICE = 20, /* memory of another GPU that the application uses itself */
                  TSR_REASON_MEMORY_GRAPH = 21,        /* memory that a graph allocates */
                  TSR_REASON_MEMORY_POOL = 22,         /* of a pool that is shared with other processes, or of host memory */
                  TSR_REASON_MEMORY_NOT_SHARED = 23,   /* memory that an executor could not map at the same address */
                  TSR_REASON_GRAPH_NODE =
                      24, /* of the launch of a graph: one of its nodes is not mirrored: a condition, memory that it allocates, a semaphore, ... */
                  TSR_REASON_GRAPH_MEMORY = 25, /* of the launch of a graph: GPUs have no copies of memory */
                  TSR_REASON_MEMORY_FIXED =
                      26 /* memory that is fixed at home: another GPU of the program, or another process, uses it */
};

struct tsr_record {
    uint64_t start;   /* ticks when the application called */
    uint32_t ticks;   /* from there to the return to the application; UINT32_MAX: more */
    uint16_t call;    /* row of the driver table (api/driver.def), from 0 */
    uint8_t kind;     /* enum tsr_record_kind */
    uint8_t flags;    /* enum tsr_record_flags */
    uint16_t result;  /* CUresult */
    uint16_t context; /* number of the context's definition; 0: none or unknown */
    uint32_t
        detail; /* LAUNCH: bytes of parameters that follow. LIBRARY: bytes that follow. RANGE: enum tsr_record_range. ATTRIBUTE: CUlaunchAttributeID. STREAM: flags. EVENT_RECORD, EVENT_WAIT: flags. MEMSET: bytes of an element */
    uint64_t stream; /* CUstream, 1 for the legacy default stream, 2 for the thread's own; 0: none */
    union {
        struct {
            uint32_t function; /* number of its definition */
            uint32_t grid[3];
            uint16_t block[3];
            uint8_t device;     /* GPU that ran it */
            uint8_t attributes; /* ATTRIBUTE records that follow */
            uint32_t shared_bytes;
            uint16_t reason; /* of KEPT_HOME: enum tsr_reason */
            uint16_t ticket; /* where GPUs have copies: last digits of its number among the work of its stream; 0: none */
        } launch;
        uint8_t attribute[32];  /* the first bytes of the CUlaunchAttributeValue */
        uint8_t parameters[32]; /* the next bytes of the parameter block */
        uint8_t bytes[32];
        struct {
            uint32_t call;   /* number of the entry point (tessera/library_calls.h), from 1 */
            uint32_t ranges; /* RANGE records that follow; without any, the bytes may say why the operands are not known */
        } library;
        struct {
            uint64_t first, last;   /* last 0: the allocation that `first` lies in */
            uint64_t stride, width; /* `width` bytes at every multiple of `stride` from first on; stride 0: all */
        } range;
        struct {
            uint64_t address, element_bytes;
            uint32_t axes; /* two uint64_t of each follow: extent in elements, stride in bytes */
        } tensor;
        struct {
            uint64_t exec; /* CUgraphExec */
            uint32_t kernels, nodes;
            uint8_t device; /* of REDIRECTED: GPU that ran it */
            uint8_t reserved;
            uint16_t reason; /* of KEPT_HOME: enum tsr_reason */
        } graph;
        struct {
            uint64_t destination, source, bytes;
            uint8_t to, from; /* CUmemorytype; 0: the call does not say */
        } copy;
        struct {
            uint64_t address, bytes;
            uint32_t value;
        } memset;
        struct {
            uint64_t address, bytes;
        } memory;
        struct {
            uint64_t handle;
            uint64_t bytes; /* of the image; 0: unknown */
        } module;
        struct {
            uint64_t handle;
            int32_t priority;
        } stream;
        struct {
            uint64_t event;
        } event;
        struct {
            uint32_t id;
        } thread;
        struct {
            uint64_t number; /* of the launch's, or pull's, record in its ring */
            uint32_t ring;   /* that ring */
            uint32_t reserved;
            uint64_t start_ns, ns; /* see gpu_clock */
        } time;
        struct {
            uint64_t address, bytes;
            uint64_t writer;      /* stream of the work that wrote the first of these bytes last; 0: unknown */
            uint16_t ticket;      /* last digits of that work's number (launch.ticket) */
            uint8_t from, to;     /* GPUs */
            uint8_t cause;        /* enum tsr_pull_cause (tessera/policy.h) */
            uint8_t through_host; /* 1: these GPUs have no peer access */
        } pull;
    } u;
};

enum tsr_entry_kind {
    TSR_ENTRY_FUNCTION = 1, /* text: the function's name as the driver knows it */
    TSR_ENTRY_MODULE, /* text: the file it was loaded from, or that its image lies in; of an image in memory, that of the code that loaded it, if code is wanted; or empty */
    TSR_ENTRY_CONTEXT,
    TSR_ENTRY_DEVICE /* text: its name */
};

struct tsr_entry {  /* the text follows, with its NUL, padded to a multiple of 8 */
    uint32_t bytes; /* of entry, text and padding */
    uint32_t kind;  /* enum tsr_entry_kind */
    uint32_t
        number; /* by which records refer to it; functions, modules and contexts count from 1, devices have the machine's numbers */
    uint32_t parent; /* FUNCTION: its module, 0 if unknown. CONTEXT: its device. DEVICE: its architecture, 90 for 9.0 */
    uint64_t handle; /* the driver's, as long as it is valid */
    uint64_t hash;   /* MODULE: of the image (base/hash.h), 0 if it is larger than 64 MiB. Others: 0 */
    uint64_t size;   /* MODULE: bytes of the image. DEVICE: bytes of memory. FUNCTION: bytes of its parameters */
};
/* cffi: end */

_Static_assert(sizeof(struct tsr_record) == 64, "one cache line");
_Static_assert(sizeof(struct tsr_ring) <= TSR_RING_RECORDS_OFFSET && sizeof(struct tsr_journal) <= TSR_JOURNAL_ENTRIES_OFFSET,
               "headers fit before what follows");

#endif
