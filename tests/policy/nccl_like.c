/* A library with the name and two entry points of NCCL, each of which launches by calling back. */
typedef void (*callback)(void);

int ncclAllReduce(callback launch, const void *from, unsigned long count, int type, int operation, void *communicator,
                  void *stream);
int ncclAllReduce(callback launch, const void *from, unsigned long count, int type, int operation, void *communicator,
                  void *stream)
{
    (void)from, (void)count, (void)type, (void)operation, (void)communicator, (void)stream;
    launch();
    return 0;
}

int ncclBroadcast(callback launch, const void *from, unsigned long count, int type, int root, void *communicator, void *stream);
int ncclBroadcast(callback launch, const void *from, unsigned long count, int type, int root, void *communicator, void *stream)
{
    return ncclAllReduce(launch, from, count, type, root, communicator, stream);
}
