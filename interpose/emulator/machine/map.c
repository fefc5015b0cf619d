/* See map.h. */
#include "map.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os.h"

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

_Static_assert(offsetof(struct tsr_machine, processes) % 4096 == 0, "the constant part fills whole pages");

static uint8_t numbers[TSR_MACHINE_DEVICES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                               8, 9, 10, 11, 12, 13, 14, 15}; /* set once, by tsr_machine_map */
static uint32_t visible_count = TSR_MACHINE_DEVICES;

uint32_t tsr_machine_number(uint32_t device)
{
    return numbers[device];
}

int tsr_machine_device(uint32_t number)
{
    for (uint32_t device = 0; device < visible_count; device++)
        if (numbers[device] == number)
            return (int)device;
    return -1;
}

/* Number of the device that the text up to length names: its own number, or GPU- and the first digits of its UUID. -1: none. */
static int named(const struct tsr_machine *machine, const char *text, size_t length)
{
    char digits[40] = "";
    size_t filled = 0;
    if (length > 4 && strncmp(text, "GPU-", 4) == 0) {
        for (size_t i = 4; i < length && filled < sizeof digits - 1; i++)
            if (text[i] != '-')
                digits[filled++] = text[i];
        for (uint32_t i = 0; i < machine->device_count; i++) {
            char uuid[40];
            for (int byte = 0; byte < 16; byte++)
                tsr_format(uuid + 2 * byte, 3, "%02x", machine->devices[i].uuid[byte]);
            if (filled && strncasecmp(uuid, digits, filled) == 0)
                return (int)i;
        }
        return -1;
    }
    uint32_t number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || number > 99)
            return -1;
        number = number * 10 + (uint32_t)(text[i] - '0');
    }
    return length && number < machine->device_count ? (int)number : -1;
}

/* The list ends at the first entry that names no device; a device named twice leaves none at all. As the driver reads it. */
static uint32_t parse_visible(const struct tsr_machine *machine, const char *text, uint8_t order[TSR_MACHINE_DEVICES])
{
    uint32_t count = 0;
    while (count < TSR_MACHINE_DEVICES) {
        text += strspn(text, " ");
        size_t length = strcspn(text, " ,");
        int number = named(machine, text, length);
        if (number < 0)
            return count;
        for (uint32_t i = 0; i < count; i++)
            if (order[i] == number)
                return 0;
        order[count++] = (uint8_t)number;
        text += length + strspn(text + length, " ");
        if (*text++ != ',')
            return count;
    }
    return count;
}

/* Puts a private, renumbered copy in the place of the constant part. */
static CUresult restrict_to(struct tsr_machine *machine, const char *visible)
{
    const size_t bytes = offsetof(struct tsr_machine, processes);
    uint8_t order[TSR_MACHINE_DEVICES];
    uint32_t count = parse_visible(machine, visible, order);
    if (!count)
        return CUDA_ERROR_NO_DEVICE;
    struct tsr_machine *whole = tsr_os_map(NULL, bytes, PROT_READ | PROT_WRITE, -1, 0);
    if (!whole)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(whole, machine, bytes);
    if (!tsr_os_map_over(machine, bytes, PROT_READ | PROT_WRITE, -1, 0)) {
        tsr_os_unmap(whole, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(machine, whole, bytes);
    machine->device_count = visible_count = count;
    for (uint32_t a = 0; a < count; a++) {
        numbers[a] = order[a];
        machine->devices[a] = whole->devices[order[a]];
        machine->host_links[a] = whole->host_links[order[a]];
        for (uint32_t b = 0; b < count; b++)
            machine->links[a * TSR_MACHINE_DEVICES + b] = whole->links[order[a] * TSR_MACHINE_DEVICES + order[b]];
    }
    tsr_os_unmap(whole, bytes);
    return CUDA_SUCCESS;
}

CUresult tsr_machine_map(const char *path, const char *visible, struct tsr_machine **out)
{
    if (!path[0]) {
        tsr_error("no emulated machine: start the program with `tessera-run --emulate 2 -- ...`");
        return CUDA_ERROR_NO_DEVICE;
    }
    int descriptor = tsr_os_open_own(path, O_RDWR);
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
    if (result == CUDA_SUCCESS && strcmp(visible, "all") != 0)
        result = restrict_to(mapped, visible);
    if (result != CUDA_SUCCESS) {
        munmap(mapped, sizeof **out);
        return result;
    }
    *out = mapped;
    return CUDA_SUCCESS;
}
