/* A driver from before green contexts. */
int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    return (int)flags;
}
