/* Starts a CUDA runtime: runtime LIBRARY FUNCTION; without arguments the one that is linked in. All of its look-ups come with the start. */
#include "use.h"

#ifdef STATIC
int cudaFree(void *);
#endif

int main(int count, char **arguments)
{
    static void *result;
#ifdef STATIC
    cudaFree(NULL);
#endif
    if (count > 2) {
        void *library = opened(dlopen(arguments[1], RTLD_NOW));
        int (*start)(void *) = (int (*)(void *))dlsym(library, arguments[2]);
        CHECK(start);
        start(&result);
    }
    return 0;
}
