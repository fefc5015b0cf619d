/* Asks cuGetProcAddress again what standard input says, "version flags name" per line, the name possibly empty; prints the object and symbol of each answer. */
#include <string.h>

#include "use.h"

int main(void)
{
    resolve_function resolve = (resolve_function)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
    CHECK(resolve);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        int version = 0, name = 0;
        unsigned long long flags = 0;
        CHECK(sscanf(line, "%d %llu%n", &version, &flags, &name) == 2);
        line[strcspn(line, "\n")] = 0;
        void *function = NULL;
        Dl_info object = {0};
        resolve(line + name + 1, &function, version, flags, NULL);
        CHECK(!function || (dladdr(function, &object) && object.dli_sname && object.dli_saddr == function));
        printf("%s %s\n", function ? object.dli_sname : "-", function ? object.dli_fname : "-");
    }
    return 0;
}
