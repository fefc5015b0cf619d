/* A library that is no driver, with a function of a driver's name. */
int cuInit(void);
int cuInit(void)
{
    return 77;
}
