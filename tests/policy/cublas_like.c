/* A library with the name and two entry points of cuBLAS; they check their arguments and call the first one. */
typedef void (*callback)(void);

#define PARAMETERS                                                                                                             \
    callback launch, long a2, long a3, long a4, long a5, long a6, long a7, long a8, long a9, long a10, long a11, long a12,      \
        long a13, long a14, long a15, long a16, long a17, long a18, long a19, long a20, long a21, long a22, double d0,         \
        double d1, double d2, double d3, double d4, double d5, double d6, double d7, double d8

static int arguments_are_right(PARAMETERS)
{
    launch();
    return a2 == 2 && a3 == 3 && a4 == 4 && a5 == 5 && a6 == 6 && a7 == 7 && a8 == 8 && a9 == 9 && a10 == 10 && a11 == 11 &&
           a12 == 12 && a13 == 13 && a14 == 14 && a15 == 15 && a16 == 16 && a17 == 17 && a18 == 18 && a19 == 19 && a20 == 20 &&
           a21 == 21 && a22 == 22 && d0 == 0.5 && d1 == 1.5 && d2 == 2.5 && d3 == 3.5 && d4 == 4.5 && d5 == 5.5 && d6 == 6.5 &&
           d7 == 7.5 && d8 == 99.5;
}

#define ARGUMENTS                                                                                                              \
    launch, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, d0, d1, d2, d3,    \
        d4, d5, d6, d7, d8

int cublasGemmEx(PARAMETERS);
double cublasDgemm_v2(PARAMETERS);

int cublasGemmEx(PARAMETERS)
{
    return arguments_are_right(ARGUMENTS) ? 7 : -1;
}

double cublasDgemm_v2(PARAMETERS)
{
    return arguments_are_right(ARGUMENTS) ? 0.25 : -1;
}
