/* object/registry and parameters: with a driver that gives the same handles out again. */
#include "object/parameters.c"
#include "object/registry.c"

#include "check.h"

struct tsr_real tsr_real;

static unsigned released;

static void release(struct tsr_module_record *module)
{
    released += module->image == -1;
}

void tsr_module_drop_image(struct tsr_module_record *module)
{
    module->image = -1;
}

uint64_t tsr_module_hash(struct tsr_module_record *module)
{
    return module->hash;
}

static CUcontext current;

static CUresult get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

/* Two of 4 bytes, at 0 and 8, and one of 6 behind them; of a kernel, only in a context. */
static unsigned fails_in; /* the call that fails; 0: none does */

static CUresult function_parameter(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    (void)function;
    if (fails_in && --fails_in == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *offset = index < 2 ? 8 * index : 12;
    *bytes = index < 2 ? 4 : 6;
    return index < 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult kernel_parameter(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    return current ? function_parameter((CUfunction)kernel, index, offset, bytes) : CUDA_ERROR_INVALID_CONTEXT;
}

static void *at(uintptr_t handle)
{
    return (void *)handle;
}

static void begin(void)
{
    tsr_real.cuCtxGetCurrent = get_current;
    tsr_real.cuFuncGetParamInfo = function_parameter;
    tsr_real.cuKernelGetParamInfo = kernel_parameter;
    current = at(0x10);
    released = 0;
    tsr_registry_listen(release);
}

TEST(a_layout_is_known_whole_or_not_at_all)
{
    enum { CALLS = 3 + 1 + 3 };
    begin();
    for (unsigned call = 1; call <= CALLS + 1; call++) {
        struct tsr_parameters parameters = {0};
        fails_in = call;
        tsr_parameters_read(&parameters, at(0x200), false);
        CHECK_EQ(parameters.known, call > CALLS);
        CHECK_EQ(parameters.count, call > CALLS ? 3 : 0);
        tsr_parameters_fini(&parameters);
    }
    fails_in = 0;
}

TEST(functions_go_with_their_module)
{
    begin();
    struct tsr_module_record *module = tsr_module_note(at(0x100), false);
    CHECK(tsr_module_find(at(0x100)) == module);
    tsr_function_note(at(0x200), at(0x100), "f", false);
    tsr_function_note(at(0x201), at(0x100), "g", false);
    tsr_function_note(at(0x202), NULL, "h", false);
    struct tsr_function_record *function = tsr_function_find(at(0x200));
    REQUIRE(function != NULL);
    CHECK(function->module == module);
    CHECK_STR(function->name, "f");
    tsr_module_forget(at(0x100));
    CHECK_EQ(released, 1);
    CHECK(!tsr_module_find(at(0x100)));
    CHECK(!tsr_function_find(at(0x200)));
    CHECK(!tsr_function_find(at(0x201)));
    CHECK(tsr_function_find(at(0x202)) != NULL);
    CHECK_STR(function->name, "f"); /* a launch may hold it */
}

TEST(what_is_found_under_a_handle_anew_replaces_what_was_there)
{
    begin();
    struct tsr_module_record *module = tsr_module_note(at(0x100), false);
    tsr_function_note(at(0x200), at(0x100), "f", false);
    struct tsr_function_record *function = tsr_function_find(at(0x200));
    tsr_function_note(at(0x200), at(0x100), "f", false);
    CHECK(tsr_function_find(at(0x200)) == function);
    tsr_function_note(at(0x200), at(0x100), "g", false);
    CHECK_STR(tsr_function_find(at(0x200))->name, "g");
    CHECK(tsr_module_note(at(0x100), false) != module);
    CHECK_EQ(released, 1);
    CHECK(!tsr_function_find(at(0x200)));
    tsr_module_forget(at(0x100));
}

TEST(handles_of_one_function_lead_to_its_record)
{
    begin();
    tsr_module_note(at(0x300), true);
    tsr_function_note(at(0x400), at(0x300), "k", true);
    struct tsr_function_record *function = tsr_function_find(at(0x400));
    tsr_function_alias(at(0x401), at(0x400));
    CHECK(tsr_function_find(at(0x401)) == function);
    CHECK_EQ(function->handles, 2);
    tsr_function_note(at(0x401), NULL, "other", false);
    CHECK(tsr_function_find(at(0x401)) != function);
    CHECK_EQ(function->handles, 1);
    tsr_module_forget(at(0x300));
    CHECK(!tsr_function_find(at(0x400)));
}

TEST(modules_and_functions_go_with_their_context_and_libraries_stay)
{
    begin();
    tsr_module_note(at(0x100), false);
    struct tsr_module_record *library = tsr_module_note(at(0x300), true);
    tsr_module_alias(at(0x301), at(0x300));
    tsr_function_note(at(0x200), at(0x100), "f", false);
    tsr_function_note(at(0x201), at(0x301), "k", false);
    tsr_function_note(at(0x400), at(0x300), "k", true);
    current = at(0x20);
    tsr_function_note(at(0x202), NULL, NULL, false);
    tsr_modules_forget_of(at(0x10));
    CHECK_EQ(released, 1);
    CHECK(!tsr_module_find(at(0x100)));
    CHECK(!tsr_function_find(at(0x200)));
    CHECK(!tsr_function_find(at(0x201)));
    CHECK(tsr_function_find(at(0x202)) != NULL);
    CHECK(tsr_function_find(at(0x400)) != NULL);
    struct tsr_module_record *module = tsr_module_note(at(0x301), false); /* the handle was the library's in that context */
    CHECK(tsr_module_find(at(0x301)) == module);
    CHECK(tsr_module_find(at(0x300)) == library);
    tsr_module_forget(at(0x300));
    tsr_module_forget(at(0x301));
    CHECK_EQ(released, 3);
    CHECK(!tsr_function_find(at(0x400)));
}

TEST(parameters_are_gathered_from_both_forms)
{
    begin();
    current = NULL;
    tsr_module_note(at(0x300), true);
    tsr_function_note(at(0x400), at(0x300), "k", true);
    struct tsr_function_record *function = tsr_function_find(at(0x400));
    uint8_t block[TSR_PARAMETER_BYTES];
    uint32_t bytes, first = 0x01010101, second = 0x02020202;
    void *params[] = {&first, &second, "abcdef"};
    tsr_function_read_parameters(function);
    CHECK(!tsr_parameters_gather(&function->parameters, params, NULL, block, &bytes));
    current = at(0x10);
    tsr_function_read_parameters(function);
    memset(block, 0xff, sizeof block);
    CHECK(tsr_parameters_gather(&function->parameters, params, NULL, block, &bytes));
    CHECK_EQ(bytes, 18);
    CHECK(memcmp(block, "\1\1\1\1\0\0\0\0\2\2\2\2abcdef", 18) == 0);

    size_t size = 5;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, "12345", CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CHECK(tsr_parameters_gather(&function->parameters, NULL, extra, block, &bytes));
    CHECK_EQ(bytes, 5);
    CHECK(memcmp(block, "12345", 5) == 0);
    size = TSR_PARAMETER_BYTES + 1;
    CHECK(!tsr_parameters_gather(&function->parameters, NULL, extra, block, &bytes));
    CHECK(!tsr_parameters_gather(&function->parameters, NULL, NULL, block, &bytes));
    extra[0] = (void *)99;
    CHECK(!tsr_parameters_gather(&function->parameters, NULL, extra, block, &bytes));
    tsr_module_forget(at(0x300));
}
