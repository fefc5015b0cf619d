/* Asks cuGetProcAddress again what standard input says, "name version flags" per line; prints the object and symbol of each answer. */
#include "use.h"

int main(void)
{
    resolve_function resolve = (resolve_function)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
    CHECK(resolve);
    char name[200];
    int version;
    unsigned long long flags;
    while (scanf("%199s %d %llu", name, &version, &flags) == 3) {
        void *function = NULL;
        Dl_info object = {0};
        resolve(name, &function, version, flags, NULL);
        CHECK(!function || (dladdr(function, &object) && object.dli_sname && object.dli_saddr == function));
        printf("%s %s\n", function ? object.dli_sname : "-", function ? object.dli_fname : "-");
    }
    return 0;
}
