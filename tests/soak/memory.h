/* The ways to allocate memory that a kernel can use: each makes one allocation and takes it back. */
#ifndef TESSERA_TESTS_SOAK_MEMORY_H
#define TESSERA_TESTS_SOAK_MEMORY_H

#include <cuda.h>

#define CU(call) expect_success((call), #call, __FILE__, __LINE__)

struct memory {
    CUdeviceptr address;
    size_t bytes;
    CUmemGenericAllocationHandle physical; /* of the program's own mappings */
    CUmemoryPool pool;
};

struct memory_kind {
    const char *name;
    size_t most_bytes;
    void (*make)(struct memory *memory, CUstream stream); /* bytes is set; sets address */
    void (*drop)(struct memory *memory, CUstream stream); /* the stream's work with it may be under way, no other's */
};

#define MEMORY_KINDS 7u
extern const struct memory_kind memory_kinds[MEMORY_KINDS];

/* Ends the program with a line on standard output and exit code 3. */
void expect_success(CUresult result, const char *call, const char *file, int line);

#endif
