/* base/socket and the files that go through it: who is at the other end, what comes with a packet, and that no name is left. */
#include "check.h"

#include "base/format.h"
#include "base/os.h"
#include "base/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static void path_of(char path[64], int descriptor)
{
    snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), descriptor);
}

/* In a child: as root another user, else whoever runs the tests. */
static void become_nobody(void)
{
    if (geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0))
        _exit(9);
}

static int open_listener(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || chmod(path, 0777) != 0 || listen(listener, 4) != 0)
        return -1;
    return listener;
}

TEST(a_listener_is_reached_through_its_process_alone)
{
    char path[64], link[64], name[128] = "";
    int place, listener = tsr_socket_listen(4, &place);
    REQUIRE(listener >= 0);
    path_of(path, place);
    int peer = tsr_socket_connect(path, 0);
    REQUIRE(peer >= 0);
    int accepted = tsr_socket_accept(listener);
    CHECK(accepted >= 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", place);
    CHECK(readlink(link, name, sizeof name - 1) > 0);
    CHECK(strstr(name, "(deleted)") != NULL);
    *strrchr(name, '/') = 0;
    CHECK(access(name, F_OK) != 0); /* nor the folder */
    close(accepted);
    close(peer);
    close(place);
    close(listener);
    CHECK_EQ(tsr_socket_connect(path, 0), -1);
    CHECK_EQ(tsr_socket_connect("", 0), -1);
    CHECK_EQ(errno, ENAMETOOLONG);
}

TEST(another_user_is_refused_at_both_ends)
{
    char folder[] = "/tmp/socket-test-XXXXXX", ours[64], theirs[64];
    int ready[2], status = 1;
    if (geteuid() != 0) /* only root can become another user; it is what continuous integration runs as */
        return;
    REQUIRE(mkdtemp(folder) && chmod(folder, 0777) == 0 && pipe(ready) == 0);
    snprintf(ours, sizeof ours, "%s/ours", folder);
    snprintf(theirs, sizeof theirs, "%s/theirs", folder);
    int listener = open_listener(ours);
    REQUIRE(listener >= 0);
    pid_t child = fork();
    if (child == 0) {
        become_nobody();
        int own = open_listener(theirs);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strncpy(address.sun_path, ours, sizeof address.sun_path - 1);
        int peer = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        bool connected = own >= 0 && connect(peer, (struct sockaddr *)&address, sizeof address) == 0;
        char byte = 1;
        connected = connected && write(ready[1], &byte, 1) == 1;
        struct pollfd wait = {.fd = own, .events = POLLIN};
        poll(&wait, 1, 10000);
        int other = accept(own, NULL, NULL);
        _exit(connected && recv(peer, &byte, 1, 0) <= 0 && recv(other, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    char byte;
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    errno = 0;
    CHECK_EQ(tsr_socket_accept(listener), -1);
    CHECK_EQ(errno, EPERM);
    errno = 0;
    CHECK_EQ(tsr_socket_connect(theirs, 0), -1);
    CHECK_EQ(errno, EPERM);
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    close(listener);
    unlink(ours);
    unlink(theirs);
    rmdir(folder);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int i = 0; i < 256; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

TEST(of_several_descriptors_none_is_kept)
{
    int pair[2], came;
    char byte = 1;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    CHECK_EQ(tsr_socket_send(pair[0], &byte, 1, pair[0], 0), 1);
    CHECK_EQ(tsr_socket_receive(pair[1], &byte, 1, &came, 0), 1);
    REQUIRE(came >= 0);
    close(came);
    unsigned before = open_descriptors();
    for (unsigned count = 2; count < 16; count++) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(16 * sizeof(int))];
        } control = {0};
        struct iovec part = {&byte, 1};
        struct msghdr header = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
        for (unsigned i = 0; i < count; i++)
            memcpy(CMSG_DATA(rights) + i * sizeof(int), &pair[0], sizeof(int));
        CHECK_EQ(sendmsg(pair[0], &header, 0), 1);
        CHECK_EQ(tsr_socket_receive(pair[1], &byte, 1, &came, 0), 1);
        CHECK_EQ(came, -1);
    }
    CHECK_EQ(open_descriptors(), before);
    close(pair[0]);
    close(pair[1]);
}

TEST(a_file_is_sealed_and_seen_to_be)
{
    int file = tsr_os_memfd("test", 8192), plain = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK(!tsr_os_is_sealed(file, F_SEAL_SHRINK, 4096));
    CHECK(tsr_os_seal(file, F_SEAL_SHRINK | F_SEAL_GROW));
    CHECK(tsr_os_is_sealed(file, F_SEAL_SHRINK, 8192));
    CHECK(!tsr_os_is_sealed(file, F_SEAL_SHRINK, 8193));
    CHECK(!tsr_os_is_sealed(file, F_SEAL_WRITE, 1));
    CHECK(!tsr_os_is_sealed(plain, F_SEAL_SHRINK, 1));
    CHECK(!tsr_os_is_sealed(-1, 0, 0));
    CHECK(ftruncate(file, 4096) != 0);
    CHECK(ftruncate(file, 16384) != 0);
    close(file);
    close(plain);
}

TEST(a_file_of_another_user_is_not_opened)
{
    char path[] = "/tmp/file-test-XXXXXX";
    int file = mkstemp(path);
    REQUIRE(file >= 0);
    int own = tsr_os_open_own(path, O_RDWR);
    CHECK(own >= 0);
    close(own);
    if (geteuid() == 0) {
        CHECK_EQ(fchown(file, NOBODY, NOBODY), 0);
        CHECK_EQ(tsr_os_open_own(path, O_RDWR), -1);
        CHECK_EQ(errno, EPERM);
    }
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_EQ(tsr_os_open_own(path, O_RDONLY), -1); /* at once */
    unlink(path);
    close(file);
}
