/*
 * Packets between processes of one machine: SOCK_SEQPACKET sockets in the abstract namespace, and a descriptor that travels with a packet.
 * Sockets and received descriptors close on exec. -1 with errno on failure; sending never raises SIGPIPE.
 */
#ifndef TSR_BASE_SOCKET_H
#define TSR_BASE_SOCKET_H

#include <stddef.h>
#include <sys/types.h>

/* One attempt. flags: SOCK_NONBLOCK or 0; errno is ENAMETOOLONG for a name that is empty or does not fit, else connect's. */
int tsr_socket_connect(const char *name, int flags);
int tsr_socket_listen(const char *name, int flags, int backlog);

/* One packet, with `descriptor` unless that is -1. flags: MSG_DONTWAIT or 0. Returns the bytes sent. */
ssize_t tsr_socket_send(int to, const void *packet, size_t bytes, int descriptor, int flags);
/* One packet, of which what does not fit is lost. *descriptor: what came with it, or -1. Returns its bytes; 0: the peer has closed. */
ssize_t tsr_socket_receive(int from, void *packet, size_t bytes, int *descriptor, int flags);

#endif
