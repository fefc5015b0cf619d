/* See map.h. */
#include "map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static CUresult check(const struct tsr_machine *machine, uint64_t file_bytes, const char *path)
{
    if (machine->magic != TSR_MACHINE_MAGIC) {
        tsr_error("%s is not an emulated machine", path);
        return CUDA_ERROR_NO_DEVICE;
    }
    if (machine->version != TSR_MACHINE_VERSION || machine->bytes != sizeof *machine || file_bytes < sizeof *machine) {
        tsr_error("%s: machine version %u of %u bytes, this driver reads version %u of %zu bytes", path, machine->version,
                  machine->bytes, TSR_MACHINE_VERSION, sizeof *machine);
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    }
    if (machine->device_count == 0 || machine->device_count > TSR_MACHINE_DEVICES) {
        tsr_error("%s: %u devices", path, machine->device_count);
        return CUDA_ERROR_NO_DEVICE;
    }
    return CUDA_SUCCESS;
}

CUresult tsr_machine_map(const char *path, struct tsr_machine **out)
{
    if (!path[0]) {
        tsr_error("no emulated machine: start the program with `tessera-run --emulate 2 -- ...`");
        return CUDA_ERROR_NO_DEVICE;
    }
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        tsr_error("the emulated machine %s cannot be opened (error %d)", path, errno);
        if (descriptor >= 0)
            close(descriptor);
        return CUDA_ERROR_NO_DEVICE;
    }
    uint64_t bytes = (uint64_t)status.st_size;
    void *mapped = bytes < 64 ? MAP_FAILED : mmap(NULL, sizeof **out, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (mapped == MAP_FAILED) {
        tsr_error("the emulated machine %s cannot be mapped (%llu bytes)", path, (unsigned long long)bytes);
        return CUDA_ERROR_NO_DEVICE;
    }
    CUresult result = check(mapped, bytes, path);
    if (result != CUDA_SUCCESS) {
        munmap(mapped, sizeof **out);
        return result;
    }
    *out = mapped;
    return CUDA_SUCCESS;
}
