/* record/definitions: numbers of contexts, modules and functions, with a driver that gives the same handles out again. */
#include "image/extent.c"
#include "record/code.c"
#include "record/definitions.c"

#include "check.h"

struct tsr_real tsr_real;

#define MOST 64
static struct tsr_entry entries[MOST];
static char texts[MOST][64];
static unsigned entry_count;
static struct tsr_journal journal;

uint32_t tsr_gpu_of(CUdevice device)
{
    return (uint32_t)device;
}

bool tsr_writer_define(struct tsr_entry *entry, const char *text)
{
    if (entry_count == MOST)
        return false;
    entries[entry_count] = *entry;
    snprintf(texts[entry_count++], sizeof texts[0], "%.63s", text);
    return true;
}

bool tsr_writer_hand_over(struct tsr_records_message message, int descriptor)
{
    return message.hash && descriptor >= 0;
}

struct tsr_journal *tsr_writer_journal(void)
{
    return &journal;
}

static CUcontext current;
static bool is_reset;     /* primary contexts have no GPU until they are used again */
static const char *named; /* what the driver says of any function; NULL: it is too old to say */

static CUresult attribute(int *value, CUdevice_attribute asked, CUdevice device)
{
    (void)device;
    *value = asked == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 2;
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}
static CUresult set_current(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}
static CUresult pop(CUcontext *context)
{
    *context = current;
    current = NULL;
    return CUDA_SUCCESS;
}
static CUresult get_device(CUdevice *device) /* odd contexts are of GPU 1 */
{
    if (!current || is_reset)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = (CUdevice)((uintptr_t)current & 1);
    return CUDA_SUCCESS;
}
static CUresult get_version(int *answer)
{
    *answer = 13000;
    return CUDA_SUCCESS;
}
static CUresult get_count(int *count)
{
    *count = 2;
    return CUDA_SUCCESS;
}
static CUresult get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}
static CUresult device_name(char *name, int length, CUdevice device)
{
    snprintf(name, (size_t)length, "GPU %d", device);
    return CUDA_SUCCESS;
}
static CUresult memory(size_t *bytes, CUdevice device)
{
    *bytes = 1000u + (unsigned)device;
    return CUDA_SUCCESS;
}
static CUresult function_name(const char **name, CUfunction function)
{
    (void)function;
    *name = named;
    return named ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
static CUresult kernel_name(const char **name, CUkernel kernel)
{
    (void)kernel;
    *name = "a kernel";
    return CUDA_SUCCESS;
}
/* The registry: one function, at 0x200, and what was noted by definitions themselves. */
static struct tsr_function_record function, unseen;
static CUcontext forgotten;

struct tsr_function_record *tsr_function_find(const void *handle)
{
    return handle == function.handle ? &function : handle && handle == unseen.handle ? &unseen : NULL;
}

void tsr_function_note(const void *handle, const void *owner, const char *name, bool is_kernel)
{
    CHECK(!owner && !name && !is_kernel);
    unseen = (struct tsr_function_record){.handle = handle};
}

void tsr_function_read_parameters(struct tsr_function_record *read)
{
    read->parameters.bytes = 20;
}

void tsr_modules_forget_of(CUcontext context)
{
    forgotten = context;
}

static void begin(void)
{
    tsr_real.cuCtxGetCurrent = get_current;
    tsr_real.cuCtxPushCurrent_v2 = set_current;
    tsr_real.cuCtxPopCurrent_v2 = pop;
    tsr_real.cuCtxGetDevice = get_device;
    tsr_real.cuDriverGetVersion = get_version;
    tsr_real.cuDeviceGetCount = get_count;
    tsr_real.cuDeviceGet = get;
    tsr_real.cuDeviceGetName = device_name;
    tsr_real.cuDeviceTotalMem_v2 = memory;
    tsr_real.cuDeviceGetAttribute = attribute;
    tsr_real.cuFuncGetName = function_name;
    tsr_real.cuKernelGetName = kernel_name;
    current = (CUcontext)0x10;
    named = "a function";
    entry_count = 0;
    tsr_definitions_start();
}

static unsigned told_count;
static uint16_t told_last;

static void told(uint16_t number)
{
    told_count++;
    told_last = number;
}

static void *at(uintptr_t handle)
{
    return (void *)handle;
}

TEST(devices_come_first)
{
    begin();
    REQUIRE(entry_count == 2);
    CHECK_EQ(entries[1].kind, TSR_ENTRY_DEVICE);
    CHECK_EQ(entries[1].number, 1);
    CHECK_EQ(entries[1].size, 1001);
    CHECK_STR(texts[1], "GPU 1");
    CHECK_EQ(journal.driver_version, 13000);
}

TEST(a_context_has_a_device_and_gets_a_new_number_with_a_new_life)
{
    begin();
    uint16_t first = tsr_context_number(at(0x10)), other = tsr_context_number(at(0x21));
    CHECK_EQ(tsr_context_number(at(0x10)), first);
    CHECK(first != other);
    CHECK_EQ(tsr_context_device(first), 0);
    CHECK_EQ(tsr_context_device(other), 1); /* which is not current */
    CHECK_EQ(tsr_context_device(0), TSR_DEVICE_UNKNOWN);
    uint32_t epoch = tsr_handles_epoch();
    current = at(0x10);
    tsr_context_forget(at(0x21), told);
    CHECK(tsr_handles_epoch() != epoch);
    CHECK_EQ(told_count, 1);
    CHECK_EQ(told_last, other);
    CHECK(forgotten == at(0x21));
    CHECK(tsr_context_number(at(0x21)) > other);
    tsr_contexts_forget_of(0, told);
    CHECK_EQ(told_last, first);
    CHECK(forgotten == at(0x10));
}

TEST(a_context_that_has_been_reset_has_a_number_only_when_it_is_used_again)
{
    begin();
    is_reset = true;
    CHECK_EQ(tsr_context_number(at(0x30)), 0);
    CHECK_EQ(entry_count, 2);
    is_reset = false;
    uint16_t number = tsr_context_number(at(0x30));
    CHECK(number != 0);
    CHECK_EQ(tsr_context_device(number), 0);
    tsr_context_forget(at(0x30), told);
}

TEST(a_module_has_the_number_that_it_had_when_it_is_loaded_again)
{
    struct tsr_module_record module = {.handle = at(0x100)}, again = {.handle = at(0x101)}, library = {.is_library = true};
    begin();
    tsr_module_define(&module, ".abc", "", NULL);
    const struct tsr_entry *entry = &entries[entry_count - 1];
    CHECK_EQ(entry->kind, TSR_ENTRY_MODULE);
    CHECK_EQ(entry->number, module.number);
    CHECK_EQ(entry->hash, tsr_hash(".abc", 5));
    CHECK_EQ(module.hash, entry->hash);
    unsigned before = entry_count;
    tsr_module_define(&again, ".abc", "", NULL);
    CHECK_EQ(again.number, module.number);
    CHECK_EQ(entry_count, before);
    tsr_module_define(&library, ".abc", "", NULL);
    CHECK(library.number != module.number);
}

TEST(a_function_is_defined_once)
{
    struct tsr_module_record module = {.number = 7};
    begin();
    function = (struct tsr_function_record){.handle = at(0x200), .module = &module, .name = "looked up"};
    CHECK(tsr_function_define(at(0x200)) == &function);
    const struct tsr_entry *entry = &entries[entry_count - 1];
    CHECK_EQ(entry->kind, TSR_ENTRY_FUNCTION);
    CHECK_EQ(entry->number, function.number);
    CHECK_EQ(entry->parent, 7);
    CHECK_EQ(entry->size, 20);
    CHECK_STR(texts[entry_count - 1], "looked up");
    unsigned before = entry_count;
    CHECK(tsr_function_define(at(0x200)) == &function);
    uint32_t number = function.number;
    function.number = 0; /* the module was loaded again */
    tsr_function_define(at(0x200));
    CHECK_EQ(function.number, number);
    CHECK_EQ(entry_count, before);
    function.number = 0;
    function.name = "its successor";
    CHECK(tsr_function_define(at(0x200))->number > number);
    CHECK_STR(texts[entry_count - 1], "its successor");
}

TEST(the_driver_names_functions_that_were_not_looked_up)
{
    begin();
    CHECK(tsr_function_define(at(0x500)) == &unseen);
    CHECK_STR(texts[entry_count - 1], "a function");
    CHECK_EQ(entries[entry_count - 1].parent, 0);
    function = (struct tsr_function_record){.handle = at(0x200), .is_kernel = true};
    tsr_function_define(at(0x200));
    CHECK_STR(texts[entry_count - 1], "a kernel");
    named = NULL; /* by an old driver */
    tsr_function_define(at(0x501));
    CHECK_STR(texts[entry_count - 1], "");
}
