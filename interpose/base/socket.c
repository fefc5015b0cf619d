/* See socket.h. */
#include "base/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union control { /* room for one descriptor */
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

typedef int tie(int descriptor, const struct sockaddr *address, socklen_t bytes);

/* A new socket, bound or connected. */
static int make(const char *name, int flags, tie *to)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length == 0 || length + 1 > sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path + 1, name, length);
    int descriptor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    if (descriptor < 0)
        return -1;
    if (to(descriptor, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

int tsr_socket_connect(const char *name, int flags)
{
    return make(name, flags, connect);
}

int tsr_socket_listen(const char *name, int flags, int backlog)
{
    int descriptor = make(name, flags, bind);
    if (descriptor < 0 || listen(descriptor, backlog) == 0)
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

ssize_t tsr_socket_send(int to, const void *packet, size_t bytes, int descriptor, int flags)
{
    union control control = {0};
    struct iovec part = {(void *)packet, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    }
    ssize_t sent;
    do
        sent = sendmsg(to, &header, MSG_NOSIGNAL | flags);
    while (sent < 0 && errno == EINTR);
    return sent;
}

ssize_t tsr_socket_receive(int from, void *packet, size_t bytes, int *descriptor, int flags)
{
    union control control;
    struct iovec part = {packet, bytes};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    *descriptor = -1;
    ssize_t got;
    do
        got = recvmsg(from, &header, MSG_CMSG_CLOEXEC | flags);
    while (got < 0 && errno == EINTR);
    struct cmsghdr *rights = got < 0 ? NULL : CMSG_FIRSTHDR(&header);
    if (rights && rights->cmsg_type == SCM_RIGHTS)
        memcpy(descriptor, CMSG_DATA(rights), sizeof *descriptor);
    return got;
}
