/* CUDA_VISIBLE_DEVICES: a process sees some of the machine's devices, in its own order. Each case maps the machine in a child. */
#include <cuda.h>

#include "emulated.h"

#include "emulator/machine/live.h"
#include "emulator/machine/map.h"

#include <sys/wait.h>

#include "check.h"

/* What a child sees: names' numbers in order, and -1 behind the last. Device 0 of the child takes a page of memory. */
struct seen {
    int result;
    int devices[3];
};

static struct seen look(const char *visible)
{
    struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), answer;
    *seen = (struct seen){-1, {-1, -1, -1}};
    pid_t child = fork();
    if (child == 0) {
        struct tsr_machine *machine = NULL;
        seen->result = (int)tsr_machine_map(getenv("TESSERA_MACHINE"), visible, &machine);
        for (uint32_t i = 0; seen->result == 0 && i < machine->device_count; i++)
            seen->devices[i] = machine->devices[i].name[12] - '0';
        if (seen->result == 0)
            tsr_live_memory_take(machine, -1, 0, 1000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    answer = *seen;
    munmap(seen, sizeof *seen);
    return answer;
}

static void expect(const char *visible, int first, int second)
{
    struct seen seen = look(visible);
    if (!CHECK_EQ(seen.result, first < 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS) || !CHECK_EQ(seen.devices[0], first) ||
        !CHECK_EQ(seen.devices[1], second))
        fprintf(stderr, "with \"%s\"\n", visible);
}

TEST(lists_are_read_as_the_driver_reads_them)
{
    expect("all", 0, 1);
    expect("0,1", 0, 1);
    expect("1,0", 1, 0);
    expect("1", 1, -1);
    expect(" 0 , 1", 0, 1);
    expect("0,7,1", 0, -1);
    expect("1,x", 1, -1);
    expect("0,-1,1", 0, -1);
    expect("0,0", -1, -1);
    expect("", -1, -1);
    expect("-1", -1, -1);
    expect("GPU-41414141", 1, -1);
    expect("GPU-41414141-4141-4141-4141-414141414141,GPU-40", 1, 0);
    expect("GPU-", -1, -1);
}

TEST(use_counts_for_the_machine_s_device)
{
    uint64_t before[2] = {emulated->live[0].memory_used_bytes, emulated->live[1].memory_used_bytes};
    look("1,0");
    CHECK_EQ(emulated->live[0].memory_used_bytes, before[0]);
    CHECK_EQ(emulated->live[1].memory_used_bytes, before[1] + 1000);
    CHECK_EQ(emulated->device_count, 2); /* the others' view stays */
    CHECK_EQ(emulated->devices[0].name[12], '0');
}
