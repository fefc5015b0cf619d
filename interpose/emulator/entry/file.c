/* See file.h. */
#include "file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static CUresult read_all(int descriptor, struct tsr_file *out)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        return CUDA_ERROR_FILE_NOT_FOUND;
    size_t size = (size_t)status.st_size, done = 0;
    char *bytes = malloc(size + 1);
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    while (done < size) {
        ssize_t part = read(descriptor, bytes + done, size - done);
        if (part <= 0) {
            free(bytes);
            return CUDA_ERROR_OPERATING_SYSTEM;
        }
        done += (size_t)part;
    }
    bytes[size] = 0;
    *out = (struct tsr_file){bytes, size};
    return CUDA_SUCCESS;
}

CUresult tsr_file_read(const char *path, struct tsr_file *out)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = read_all(descriptor, out);
    close(descriptor);
    return result;
}
