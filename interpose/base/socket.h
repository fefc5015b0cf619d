/*
 * Packets between processes of one user on one machine: SOCK_SEQPACKET sockets, and a descriptor that travels with a packet.
 *
 * A listener has no name that another user could take or connect to. It is bound in a folder of mode 0700, which is removed again at once. A
 * client connects through a descriptor of the listening process, /proc/PID/fd/N, which the kernel opens only for processes of the same user.
 * Both ends ask the kernel for the other's user before anything is sent, because process ids are reused.
 *
 * Sockets and received descriptors close on exec. -1 with errno on failure; sending never raises SIGPIPE.
 */
#ifndef TSR_BASE_SOCKET_H
#define TSR_BASE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One attempt. flags: SOCK_NONBLOCK or 0; errno is EPERM when another user listens there, ENAMETOOLONG for a path that is empty or does
   not fit, else connect's. */
int tsr_socket_connect(const char *path, int flags);
/* *place: a descriptor through which this process' listener is reached; both are the caller's to close. */
int tsr_socket_listen(int backlog, int *place);
/* errno is EPERM when it was another user, to whom nothing was sent. */
int tsr_socket_accept(int listener);

/* One packet, with `descriptor` unless that is -1. flags: MSG_DONTWAIT or 0. Returns the bytes sent. */
ssize_t tsr_socket_send(int to, const void *packet, size_t bytes, int descriptor, int flags);
/* One packet, of which what does not fit is lost. *descriptor: what came with it, or -1; of several none is kept. Returns its bytes;
   0: the peer has closed. */
ssize_t tsr_socket_receive(int from, void *packet, size_t bytes, int *descriptor, int flags);

#endif
