/* SPDX-License-Identifier: BSD-3-Clause */
/* What UDP needs: for Godwit over sockets, and for multicast. */
#include <stdio.h>
#include <string.h>

#include "exam.h"
#include "parse.h"

#define BUFFER_LEAST	(UINT64_C(4) << 20)
#define DROPS_TO_TELL	1e-4
#define DATAGRAMS_LEAST 10000u
#define FLAG_MULTICAST	0x1000u

static void socket_buffers(struct exam *exam, const struct subject *subject)
{
	static const char *const names[] = { "rmem_max", "wmem_max" };

	for (size_t i = 0; i < 2; i++) {
		const struct fact *fact =
			reader_read(exam->model->reader, "/proc/sys/net/core/%s", names[i]);
		uint64_t bytes;

		/* A network namespace of its own does not show them. */
		if (!seen(exam, subject, fact, false) || !parse_number(fact->text, &bytes))
			continue;
		if (bytes < BUFFER_LEAST)
			found(exam, subject, fact->path, "%s %llu KiB", names[i],
			      (unsigned long long)bytes / 1024);
	}
}

/* /proc/net/snmp has two lines "Udp:", names and values. Returns whether the value of a name is there. */
static bool snmp_udp(const char *text, const char *name, uint64_t *out)
{
	const char *names = strstr(text, "Udp: "),
		   *values = names ? strstr(names + 5, "\nUdp: ") : NULL;
	unsigned column = 0;
	size_t length;

	if (!values)
		return false;
	for (names += 5; *names && *names != '\n'; names += length + (names[length] == ' ')) {
		length = strcspn(names, " \n");
		if (length == strlen(name) && memcmp(names, name, length) == 0)
			break;
		column++;
	}
	if (!*names || *names == '\n')
		return false;
	for (values += 6; column && *values && *values != '\n'; column--) {
		values += strcspn(values, " \n");
		values += *values == ' ';
	}
	return sscanf(values, "%lu", out) == 1;
}

static void udp_drops(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = reader_read(exam->model->reader, "/proc/net/snmp");
	uint64_t in, dropped, all;

	if (!seen(exam, subject, fact, true))
		return;
	if (!snmp_udp(fact->text, "InDatagrams", &in) ||
	    !snmp_udp(fact->text, "RcvbufErrors", &dropped)) {
		unseen_why(exam, subject, fact->path, "it does not hold what such a file holds");
		return;
	}
	all = in + dropped;
	if (all >= DATAGRAMS_LEAST && (double)dropped / (double)all > DROPS_TO_TELL)
		found(exam, subject, fact->path,
		      "%llu of %llu datagrams found a full socket buffer",
		      (unsigned long long)dropped, (unsigned long long)all);
}

static void multicast(struct exam *exam, const struct subject *subject)
{
	const char *netdev = netdev_name(subject->port);
	const struct fact *fact =
		reader_read(exam->model->reader, "/sys/class/net/%s/flags", netdev);
	uint64_t flags;
	struct finding *finding;

	if (!netdev[0] || !seen(exam, subject, fact, false) || !parse_number(fact->text, &flags) ||
	    (flags & FLAG_MULTICAST))
		return;
	finding = found(exam, subject, fact->path, "flags %s", fact->text);
	finding->fix = say(exam, "ip link set %s multicast on", netdev);
}

static const struct check checks[] = {
	{
		.id = "socket-buffers",
		.severity = SEVERITY_INFO,
		.impact = 32,
		.title = "socket buffers are small",
		.healthy = "4 MiB or more",
		.why = "Over UDP sockets a burst that the process does not read at once is dropped, and a fast path cannot be filled.",
		.fix = "sysctl -w net.core.rmem_max=16777216 net.core.wmem_max=16777216",
		.explain =
			"The most that a program may ask for. Godwit works within it, and is faster with more: rate times round trip is a good size.",
		.run = socket_buffers,
	},
	{
		.id = "udp-drops",
		.severity = SEVERITY_WARNING,
		.impact = 39,
		.title = "UDP sockets of this host overflow",
		.healthy = "below one in 10,000",
		.why = "What a socket has no room for is lost after it crossed the whole network.",
		.fix = "sysctl -w net.core.rmem_max=16777216; pin the receiving process to an idle core",
		.explain =
			"RcvbufErrors of /proc/net/snmp against all UDP datagrams since boot, of all programs. `ss -uam` shows which socket.",
		.run = udp_drops,
	},
	{
		.id = "multicast",
		.severity = SEVERITY_WARNING,
		.impact = 28,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_ACTIVE,
		.title = "multicast is off on the interface",
		.healthy = "on",
		.why = "Broadcasts over multicast do not reach this host.",
		.fix = "ip link set INTERFACE multicast on",
		.explain =
			"Also needed, and not visible here: a switch that snoops IGMP needs a querier in the network.",
		.run = multicast,
	},
};

const struct check_group checks_buffers = CHECK_GROUP(checks);
