/* VMM: reservations, mappings of physical memory, access, sharing by descriptor. */
#include <cuda.h>

#include "emulated.h"

#include "emulator/context/context.h"
#include "emulator/space/space.h"
#include "emulator/memory/vmm.h"

#include "check.h"

#define MIB (1ull << 20)

static struct tsr_emulated_physical *make(uint32_t device, uint64_t bytes)
{
    struct tsr_emulated_physical *physical = NULL;
    CHECK_EQ(tsr_driver_init(), CUDA_SUCCESS);
    CHECK_EQ(tsr_physical_create(device, bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, &physical), CUDA_SUCCESS);
    return physical;
}

static uint64_t reserve(uint64_t bytes)
{
    uint64_t address = 0;
    CHECK_EQ(tsr_emulated_vmm_reserve(bytes, 0, 0, &address), CUDA_SUCCESS);
    return address;
}

TEST(a_free_hint_is_honoured)
{
#ifdef __SANITIZE_THREAD__ /* it keeps the other region for itself */
    uint64_t hint = 0x7ee000000000ull, bytes = 1ull << 32, first = 0, second = 0;
#else
    uint64_t hint = 0x200000000000ull, bytes = 1ull << 40, first = 0, second = 0;
#endif
    CHECK_EQ(tsr_emulated_vmm_reserve(bytes, 0, hint, &first), CUDA_SUCCESS);
    CHECK_EQ(first, hint);
    CHECK_EQ(tsr_emulated_vmm_reserve(4 * MIB, 0, first, &second), CUDA_SUCCESS);
    CHECK(second != first);
    CHECK_EQ(tsr_emulated_vmm_free(first, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_emulated_vmm_free(first, bytes), CUDA_SUCCESS);
    CHECK_EQ(tsr_emulated_vmm_free(first, bytes), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_emulated_vmm_free(second, 4 * MIB), CUDA_SUCCESS);
}

TEST(reservations_without_a_hint_are_the_same_each_time)
{
    uint64_t a = reserve(8 * MIB), b = reserve(2 * MIB), aligned = 0;
    CHECK_EQ(tsr_emulated_vmm_free(a, 8 * MIB), CUDA_SUCCESS);
    CHECK_EQ(reserve(8 * MIB), a);
    CHECK_EQ(tsr_emulated_vmm_reserve(2 * MIB, 1ull << 32, 0, &aligned), CUDA_SUCCESS);
    CHECK_EQ(aligned % (1ull << 32), 0);
    CHECK_EQ(tsr_emulated_vmm_reserve(2 * MIB, 3 * MIB, 0, &aligned), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_emulated_vmm_reserve(MIB, 0, 0, &aligned), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_emulated_vmm_reserve(1ull << 60, 0, 0, &aligned), CUDA_ERROR_OUT_OF_MEMORY);
    tsr_emulated_vmm_free(aligned, 2 * MIB);
    tsr_emulated_vmm_free(a, 8 * MIB);
    tsr_emulated_vmm_free(b, 2 * MIB);
}

TEST(two_mappings_show_the_same_bytes)
{
    struct tsr_emulated_physical *physical = make(0, 4 * MIB);
    uint64_t a = reserve(4 * MIB), b = reserve(4 * MIB);
    REQUIRE(tsr_vmm_map(a, 4 * MIB, 0, physical) == CUDA_SUCCESS && tsr_vmm_map(b, 4 * MIB, 0, physical) == CUDA_SUCCESS);
    *(uint32_t *)(uintptr_t)(a + 3 * MIB) = 77;
    CHECK_EQ(*(uint32_t *)(uintptr_t)(b + 3 * MIB), 77);
    CHECK_EQ(tsr_vmm_map(a, 4 * MIB, 0, physical), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_vmm_map(a + 4 * MIB, 4 * MIB, 0, physical), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_emulated_vmm_free(a, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_vmm_unmap(a, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_vmm_unmap(a + 2 * MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_vmm_unmap(a, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQ(tsr_vmm_unmap(b, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQ(tsr_emulated_vmm_free(a, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQ(tsr_emulated_vmm_free(b, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 4 * MIB);
    CHECK_EQ(tsr_physical_release(tsr_physical_handle(physical)), CUDA_SUCCESS);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 0);
}

TEST(access_is_per_device_and_begins_with_none)
{
    struct tsr_emulated_physical *physical = make(1, 2 * MIB);
    uint64_t a = reserve(2 * MIB);
    unsigned long long flags = 9;
    REQUIRE(tsr_vmm_map(a, 2 * MIB, 0, physical) == CUDA_SUCCESS);
    CHECK_EQ(tsr_vmm_access_get(a, 0, &flags), CUDA_SUCCESS);
    CHECK_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK_EQ(tsr_vmm_access_set(a, 2 * MIB, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
    CHECK_EQ(tsr_vmm_access_set(a, 2 * MIB, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
    tsr_vmm_access_get(a + MIB, 0, &flags);
    CHECK_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    tsr_vmm_access_get(a + MIB, 1, &flags);
    CHECK_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK_EQ(tsr_vmm_access_set(a, 2 * MIB, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_SUCCESS);
    tsr_vmm_access_get(a, 1, &flags);
    CHECK_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK_EQ(tsr_vmm_access_set(a + 2 * MIB, 2 * MIB, 1, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_INVALID_VALUE);
    tsr_vmm_unmap(a, 2 * MIB);
    tsr_emulated_vmm_free(a, 2 * MIB);
    tsr_physical_release(tsr_physical_handle(physical));
}

TEST(memory_lives_as_long_as_somebody_refers_to_it)
{
    struct tsr_emulated_physical *physical = make(0, 2 * MIB);
    CUmemGenericAllocationHandle handle = tsr_physical_handle(physical), again = 0;
    uint64_t a = reserve(2 * MIB);
    REQUIRE(tsr_vmm_map(a, 2 * MIB, 0, physical) == CUDA_SUCCESS);
    CHECK_EQ(tsr_physical_release(handle), CUDA_SUCCESS);
    CHECK_EQ(tsr_physical_release(handle), CUDA_ERROR_INVALID_VALUE);
    CHECK(tsr_physical_find(handle) == NULL);
    struct tsr_emulated_physical *found = tsr_vmm_physical(a + MIB);
    REQUIRE(found == physical);
    CHECK_EQ(tsr_physical_retain(found, &again), CUDA_SUCCESS);
    tsr_physical_unref(found);
    tsr_vmm_unmap(a, 2 * MIB);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 2 * MIB);
    CHECK_EQ(tsr_physical_release(again), CUDA_SUCCESS);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 0);
    tsr_emulated_vmm_free(a, 2 * MIB);
}

TEST(a_descriptor_carries_the_memory)
{
    struct tsr_emulated_physical *physical = make(1, 2 * MIB), *imported = NULL;
    int descriptor = tsr_physical_export(physical), other = memfd_create("other", 0);
    REQUIRE(descriptor >= 0 && other >= 0 && ftruncate(other, 2 * MIB + 4096) == 0);
    CHECK_EQ(tsr_physical_import(descriptor, &imported), CUDA_SUCCESS);
    close(descriptor);
    REQUIRE(imported != NULL);
    CHECK_EQ(tsr_physical_device(imported), 1);
    CHECK_EQ(tsr_physical_bytes(imported), 2 * MIB);
    uint64_t a = reserve(2 * MIB), b = reserve(2 * MIB);
    REQUIRE(tsr_vmm_map(a, 2 * MIB, 0, physical) == CUDA_SUCCESS && tsr_vmm_map(b, 2 * MIB, 0, imported) == CUDA_SUCCESS);
    *(uint32_t *)(uintptr_t)b = 5;
    CHECK_EQ(*(uint32_t *)(uintptr_t)a, 5);
    tsr_vmm_unmap(a, 2 * MIB);
    tsr_vmm_unmap(b, 2 * MIB);
    tsr_emulated_vmm_free(a, 2 * MIB);
    tsr_emulated_vmm_free(b, 2 * MIB);
    CHECK_EQ(tsr_physical_import(other, &imported), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_physical_import(-1, &imported), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(tsr_physical_release(tsr_physical_handle(imported)), CUDA_SUCCESS);
    CHECK_EQ(tsr_physical_release(tsr_physical_handle(physical)), CUDA_SUCCESS);
    close(other);
}
