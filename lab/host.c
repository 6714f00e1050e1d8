/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c: creates namespaces, and sets interfaces up by ioctl and netlink, since the `ip` command may be missing. */
#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Packets that may wait in the TUN for the switch; the default of 500 overflows. */
#define QUEUE_LENGTH 16384

/* Since Linux 6.2; older headers lack them. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

/* struct in6_ifreq of <linux/ipv6.h>, which conflicts with <netinet/in.h>. */
struct ipv6_address_request {
	struct in6_addr address;
	uint32_t prefix_length;
	int index;
};

void host_address(unsigned index, char address[HOST_ADDRESS_SIZE])
{
	snprintf(address, HOST_ADDRESS_SIZE, "10.200.0.%u", (index + 1) & 0xff);
}

void host_address6(unsigned index, char address[HOST_ADDRESS6_SIZE])
{
	snprintf(address, HOST_ADDRESS6_SIZE, "fd00:200::%x", index + 1);
}

/* Writes the reason and the text of errno to error; returns -errno. */
static int fail(char error[LAB_ERROR_SIZE], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int fail(char error[LAB_ERROR_SIZE], const char *format, ...)
{
	int code = errno;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(error, LAB_ERROR_SIZE, format, arguments);
	va_end(arguments);
	if (length > 0 && length < LAB_ERROR_SIZE)
		snprintf(error + length, LAB_ERROR_SIZE - (size_t)length, ": %s", strerror(code));
	return -code;
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Moves the process into a user namespace in which it is root. */
static int become_root_of_own(char error[LAB_ERROR_SIZE])
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER))
		return fail(error, "needs root, or a kernel that lets users have namespaces");
	/* An unprivileged process must do this before it may map its group. */
	write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	errno = -write_text("/proc/self/uid_map", map);
	if (errno)
		return fail(error, "cannot map the user into a namespace");
	snprintf(map, sizeof(map), "0 %u 1", gid);
	errno = -write_text("/proc/self/gid_map", map);
	if (errno)
		return fail(error, "cannot map the group into a namespace");
	return 0;
}

int host_prepare(char error[LAB_ERROR_SIZE])
{
	if (access("/dev/net/tun", R_OK | W_OK))
		return fail(error, "cannot use /dev/net/tun");
	if (unshare(CLONE_NEWNET)) {
		int rc = errno == EPERM ? become_root_of_own(error)
					: fail(error, "cannot make a network namespace");

		if (rc)
			return rc;
		if (unshare(CLONE_NEWNET))
			return fail(error, "cannot make a network namespace");
	}
	if (unshare(CLONE_NEWPID))
		return fail(error, "cannot make a process namespace");
	return 0;
}

static int raise_interface(int control, const char *name)
{
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(control, SIOCGIFFLAGS, &request))
		return -1;
	request.ifr_flags = (short)(request.ifr_flags | IFF_UP | IFF_RUNNING);
	return ioctl(control, SIOCSIFFLAGS, &request);
}

static int set_ipv4(int control, unsigned index)
{
	struct ifreq request = { .ifr_name = HOST_INTERFACE };
	struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
	char text[HOST_ADDRESS_SIZE];

	host_address(index, text);
	address->sin_family = AF_INET;
	inet_pton(AF_INET, text, &address->sin_addr);
	if (ioctl(control, SIOCSIFADDR, &request))
		return -1;
	inet_pton(AF_INET, "255.255.255.0", &address->sin_addr);
	return ioctl(control, SIOCSIFNETMASK, &request);
}

/* Does nothing on a kernel without IPv6. A TUN does no neighbour discovery, so the address is usable at once. */
static int set_ipv6(unsigned index)
{
	struct ipv6_address_request request = { .prefix_length = 64 };
	char text[HOST_ADDRESS6_SIZE];
	int control = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (control < 0)
		return errno == EAFNOSUPPORT ? 0 : -1;
	host_address6(index, text);
	inet_pton(AF_INET6, text, &request.address);
	request.index = (int)if_nametoindex(HOST_INTERFACE);
	rc = ioctl(control, SIOCSIFADDR, &request);
	close(control);
	return rc;
}

/* By netlink, because the ioctl needs privileges outside the user namespace. */
static int set_queue_length(void)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg link;
		struct rtattr name;
		uint32_t length;
	} request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = RTM_SETLINK,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.link = { .ifi_index = (int)if_nametoindex(HOST_INTERFACE) },
		.name = { .rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = IFLA_TXQLEN },
		.length = QUEUE_LENGTH,
	};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr result;
		char rest[256];
	} answer;
	int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t got = -1;

	if (netlink < 0)
		return -1;
	if (send(netlink, &request, sizeof(request), 0) > 0)
		got = recv(netlink, &answer, sizeof(answer), 0);
	close(netlink);
	if (got < (ssize_t)(sizeof(answer.header) + sizeof(answer.result)))
		return -1;
	errno = -answer.result.error;
	return errno ? -1 : 0;
}

static int configure(const struct lab_config *config, unsigned index, char error[LAB_ERROR_SIZE])
{
	int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = HOST_INTERFACE };
	int rc = 0;

	if (control < 0)
		return fail(error, "cannot set up host %u", index);
	request.ifr_mtu = (int)config->mtu;
	if (ioctl(control, SIOCSIFMTU, &request))
		rc = fail(error, "cannot give host %u an MTU of %u", index, config->mtu);
	if (!rc && set_queue_length())
		rc = fail(error, "cannot lengthen the queue of host %u", index);
	if (!rc && set_ipv4(control, index))
		rc = fail(error, "cannot give host %u its IPv4 address", index);
	if (!rc && (raise_interface(control, "lo") || raise_interface(control, HOST_INTERFACE)))
		rc = fail(error, "cannot bring the interfaces of host %u up", index);
	if (!rc && set_ipv6(index))
		rc = fail(error, "cannot give host %u its IPv6 address", index);
	close(control);
	return rc;
}

/* Enables as many offloads as the kernel has: one super-packet then replaces up to forty reads and writes. */
static void offload(int tun)
{
	static const unsigned sets[] = {
		TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_USO4 | TUN_F_USO6,
		TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6,
		TUN_F_CSUM,
	};

	for (unsigned i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (ioctl(tun, TUNSETOFFLOAD, (unsigned long)sets[i]) == 0)
			return;
	}
}

static int open_tun(const struct lab_config *config, unsigned index, int *out,
		    char error[LAB_ERROR_SIZE])
{
	struct ifreq request = { .ifr_name = HOST_INTERFACE,
				 .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR };
	int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), rc;

	if (tun < 0)
		return fail(error, "cannot open /dev/net/tun");
	if (ioctl(tun, TUNSETIFF, &request)) {
		rc = fail(error, "cannot make a TUN for host %u", index);
		close(tun);
		return rc;
	}
	if (!config->no_offload)
		offload(tun);
	*out = tun;
	return 0;
}

int host_open(const struct lab_config *config, unsigned index, struct host *out,
	      char error[LAB_ERROR_SIZE])
{
	struct host host = { .network = -1, .tun = -1 };
	int rc;

	if (unshare(CLONE_NEWNET))
		return fail(error, "cannot make a network namespace for host %u", index);
	rc = open_tun(config, index, &host.tun, error);
	if (rc)
		return rc;
	rc = configure(config, index, error);
	if (!rc) {
		host.network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		if (host.network < 0)
			rc = fail(error, "cannot open the namespace of host %u", index);
	}
	if (rc) {
		close(host.tun);
		return rc;
	}
	*out = host;
	return 0;
}

uint64_t host_overruns(const struct host *host)
{
	unsigned long long dropped = 0;
	char line[256];
	FILE *file;

	if (setns(host->network, CLONE_NEWNET))
		return 0;
	file = fopen("/proc/self/net/dev", "re");
	if (!file)
		return 0;
	/* Eight columns for receiving, then those for sending; the fourth of these is the number of drops. */
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line,
			   " " HOST_INTERFACE ": %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
			   &dropped) == 1)
			break;
	}
	fclose(file);
	return dropped;
}
