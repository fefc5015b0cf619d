/* base/demangle: names of kernels as __cxa_demangle writes them, and damaged ones. */
#include "check.h"

#include "base/demangle.h"

#include <string.h>

static const struct {
    const char *mangled, *declaration, *name;
} known[] = {
    {"_Z10vector_addPfS_S_", "vector_add(float*, float*, float*)", "vector_add"},
    {"_Z4showv", "show()", "show"},
    {"_ZN3foo3barE", "foo::bar", "foo::bar"},
    {"_Z6squareI6float2EvPT_i", "void square<float2>(float2*, int)", "square<float2>"},
    {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
     "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, "
     "at::native::FillFunctor<float>, std::array<char*, 1ul>)",
     "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"},
    {"_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_addIfEEEEvRNS_"
     "18TensorIteratorBaseERKT_EUliE_EEviT1_",
     "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> "
     ">(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1}>(int, "
     "at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> >(at::TensorIteratorBase&, "
     "at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1})",
     "at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> "
     ">(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1}>"},
    {"_ZN49_GLOBAL__N__0a1b2c3d_11_SoftMax_cu_9f978f63_123457softmaxEPf", "(anonymous namespace)::softmax(float*)",
     "(anonymous namespace)::softmax"},
    {"_ZN3foo3barIJiffEEEvDpT_", "void foo::bar<int, float, float>(int, float, float)", "foo::bar<int, float, float>"},
    {"_ZN2at6native4litsILNS_2STE6ELb1ELc97ELj7ELln4ELm9ELsn3EEEvSt17integral_constantIS2_XT_EE",
     "void at::native::lits<(at::ST)6, true, (char)97, 7u, -4l, 9ul, (short)-3>(std::integral_constant<at::ST, (at::ST)6>)",
     "at::native::lits<(at::ST)6, true, (char)97, 7u, -4l, 9ul, (short)-3>"},
    {"_Z3arrRA3_iPA4_A5_KfPFviPcERKPFvvEPFPFifEiEDnPdPViPKPKcxn",
     "arr(int (&) [3], float const (*) [4][5], void (*)(int, char*), void (* const&)(), int (*(*)(int))(float), "
     "decltype(nullptr), double*, int volatile*, char const* const*, long long, __int128)",
     "arr"},
    {"_Z3retIiEPFT_iES0_", "int (*ret<int>(int))(int)", "ret<int>"},
};

TEST(names_of_kernels_are_what_the_library_says)
{
    static struct tsr_demangled found;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        REQUIRE(tsr_demangle(known[i].mangled, &found));
        CHECK_STR(found.text, known[i].declaration);
        CHECK(found.name_end - found.name == strlen(known[i].name));
        CHECK(strncmp(found.text + found.name, known[i].name, found.name_end - found.name) == 0);
    }
}

TEST(what_is_not_understood_is_said)
{
    static struct tsr_demangled found;
    static const char *const others[] = {"", "_Z", "vector_add", "_ZN3foo", "_Z1fM1AFviE", "_Z1fS5_", "_Z1fIiEvT3_", "_Z99f"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(!tsr_demangle(others[i], &found));
}

TEST(kernels_are_named_as_people_know_them)
{
    static char huge[2000];
    memset(huge, 'x', sizeof huge - 1);
    CHECK(!strcmp(TSR_KERNEL_NAME("_ZN2at5scaleIfEEvPT_"), "at::scale<float>"));
    CHECK(!strcmp(TSR_KERNEL_NAME("_Z16histogram_globalPKhiPj"), "histogram_global"));
    CHECK(!strcmp(TSR_KERNEL_NAME("saxpy"), "saxpy"));
    CHECK(!strcmp(TSR_KERNEL_NAME("_Znonsense"), "_Znonsense"));
    CHECK(strlen(TSR_KERNEL_NAME(huge)) == sizeof(struct tsr_kernel_name) - 1);
}

/* Cut anywhere, and with each character another one. */
TEST(damaged_names_do_no_harm)
{
    static struct tsr_demangled found;
    static const char letters[] = "SIEJTNZ_019LXPRKFADpUl";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (size_t at = 2; known[i].mangled[at]; at++) {
            char name[512];
            strcpy(name, known[i].mangled);
            for (size_t k = 0; letters[k]; k++) {
                name[at] = letters[k];
                tsr_demangle(name, &found);
            }
            name[at] = 0;
            tsr_demangle(name, &found);
        }
}

/* Short names of huge texts, and of deep trees. */
TEST(time_and_room_are_bounded)
{
    static struct tsr_demangled found;
    static char name[12000];
    strcpy(name, "_Z1f1aSt4pairIS_S_E");
    for (char c = '0'; c <= '9'; c++) {
        char more[] = "St4pairIS0_S0_E";
        more[9] = more[12] = c;
        strcat(name, more);
    }
    tsr_demangle(name, &found);
    memset(name, 'P', sizeof name - 1);
    memcpy(name, "_Z1f", 4);
    CHECK(!tsr_demangle(name, &found));
    memset(name, 'i', sizeof name - 1);
    memcpy(name, "_Z1f", 4);
    CHECK(!tsr_demangle(name, &found));
}
