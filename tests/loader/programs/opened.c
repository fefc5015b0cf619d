/* Ways to open the driver at run time: opened WAY [FILE]. FILE is the driver, or for those that end in _inside the plug-in. */
#include <string.h>

#include "use.h"

static void inside(void *plugin, const char *way, const char *file)
{
    void (*enter)(const char *, const char *) = (void (*)(const char *, const char *))dlsym(plugin, "use_inside");
    CHECK(enter);
    enter(way, file);
}

int main(int count, char **arguments)
{
    const char *way = arguments[1], *file = count > 2 ? arguments[2] : "libcuda.so.1",
               *plugin = count > 3 ? arguments[3] : NULL;
    if (strcmp(way, "dlopen") == 0)
        use_handle(dlsym, opened(dlopen(file, RTLD_NOW)));
    else if (strcmp(way, "global") == 0)
        opened(dlopen(file, RTLD_NOW | RTLD_GLOBAL)), use_handle(dlsym, RTLD_DEFAULT);
    else if (strcmp(way, "deepbind") == 0)
        use_handle(dlsym, opened(dlopen(file, RTLD_NOW | RTLD_DEEPBIND)));
    else if (strcmp(way, "dlvsym") == 0)
        use_handle(real_dlsym(), opened(dlopen(file, RTLD_NOW)));
    else if (strcmp(way, "dlmopen") == 0)
        use_handle(dlsym, opened(dlmopen(LM_ID_NEWLM, file, RTLD_NOW)));
    else if (strcmp(way, "inside") == 0)
        inside(opened(dlopen(plugin, RTLD_NOW)), "dlopen", file);
    else if (strcmp(way, "inside_linked") == 0)
        inside(opened(dlopen(plugin, RTLD_NOW)), "linked", file);
    else if (strcmp(way, "inside_deepbind") == 0)
        inside(opened(dlopen(plugin, RTLD_NOW | RTLD_DEEPBIND)), "dlopen", file);
    else if (strcmp(way, "inside_dlmopen") == 0)
        inside(opened(dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW)), "dlopen", file);
    else
        CHECK(!"a known way");
    return 0;
}
