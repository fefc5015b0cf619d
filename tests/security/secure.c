/* Linked to the driver, as a program of another house may be: says whether it runs securely, and what cuInit answers. */
#include <cuda.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(void)
{
    printf("secure %lu uid %d\n", getauxval(AT_SECURE), (int)geteuid());
    printf("cuInit %d\n", (int)cuInit(0));
    return 0;
}
