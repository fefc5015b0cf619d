/* See socket.h. */
#include "base/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/format.h"

#define MOST_DESCRIPTORS 8u /* of one packet; the kernel drops what does not fit */
#define NAME "/socket"

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
};

typedef int tie(int descriptor, const struct sockaddr *address, socklen_t bytes);

static void close_quietly(int descriptor)
{
    int error = errno;
    close(descriptor);
    errno = error;
}

/* A new socket, bound or connected. */
static int make(const char *path, int flags, tie *to)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, length);
    int descriptor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    if (descriptor < 0)
        return -1;
    if (to(descriptor, (struct sockaddr *)&address, (socklen_t)sizeof address) == 0)
        return descriptor;
    close_quietly(descriptor);
    return -1;
}

/* The same descriptor, or -1 with EPERM when another user's process is at the other end. */
static int checked(int descriptor)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (descriptor < 0)
        return -1;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid())
        return descriptor;
    close(descriptor);
    errno = EPERM;
    return -1;
}

int tsr_socket_connect(const char *path, int flags)
{
    return checked(make(path, flags, connect));
}

int tsr_socket_accept(int listener)
{
    return checked(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

/* Listens in a new folder, of which nothing is left. */
static int listen_in(char *folder, int backlog, int *place)
{
    char path[64];
    if (!mkdtemp(folder))
        return -1;
    tsr_format(path, sizeof path, "%s" NAME, folder);
    int descriptor = make(path, 0, bind);
    *place = descriptor >= 0 ? open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
    int error = errno;
    unlink(path);
    rmdir(folder);
    errno = error;
    if (*place >= 0 && listen(descriptor, backlog) == 0)
        return descriptor;
    if (*place >= 0)
        close_quietly(*place);
    if (descriptor >= 0)
        close_quietly(descriptor);
    *place = -1;
    return -1;
}

int tsr_socket_listen(int backlog, int *place)
{
    char usual[] = "/tmp/tessera-XXXXXX", other[] = "/dev/shm/tessera-XXXXXX";
    int descriptor = listen_in(usual, backlog, place);
    return descriptor >= 0 ? descriptor : listen_in(other, backlog, place);
}

ssize_t tsr_socket_send(int to, const void *packet, size_t bytes, int descriptor, int flags)
{
    union control control = {0};
    struct iovec part = {(void *)packet, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(int));
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

/* That of a packet that came with one; whatever else came is closed. */
static int only_descriptor(struct msghdr *header)
{
    int came[MOST_DESCRIPTORS];
    size_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = part->cmsg_len - CMSG_LEN(0), room = sizeof came - count * sizeof came[0];
        memcpy(&came[count], CMSG_DATA(part), bytes < room ? bytes : room);
        count += (bytes < room ? bytes : room) / sizeof came[0];
    }
    if (count == 1)
        return came[0];
    while (count)
        close(came[--count]);
    return -1;
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
    if (got >= 0)
        *descriptor = only_descriptor(&header);
    return got;
}
