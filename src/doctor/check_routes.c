/* SPDX-License-Identifier: BSD-3-Clause */
/* Several RDMA interfaces on one host: ARP, reverse path filtering, and the way from one rail to another. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "exam.h"
#include "parse.h"

/* The first IPv4 address of an RDMA interface that is not link-local; null: none. */
static const struct address *rail_address(const struct model *model, const struct netdev *netdev)
{
	const struct address *address = NULL;

	while (netdev->rdma && (address = model_address(model, netdev->name, address))) {
		if (address->family == AF_INET && !address_link_local(address))
			return address;
	}
	return NULL;
}

/* Returns whether another RDMA interface is in the same subnet; *other is set to it. */
static bool shares_subnet(const struct model *model, const struct netdev *netdev,
			  const struct netdev **other)
{
	const struct address *own = rail_address(model, netdev);

	for (size_t i = 0; own && i < model->netdev_count; i++) {
		const struct address *theirs = rail_address(model, &model->netdevs[i]);

		if (&model->netdevs[i] == netdev || !theirs || !address_same_subnet(own, theirs))
			continue;
		*other = &model->netdevs[i];
		return true;
	}
	return false;
}

/* The kernel uses the larger of the value for all and that of the interface. Returns false if neither is known. */
static bool sysctl_max(struct exam *exam, const struct subject *subject, const char *netdev,
		       const char *name, uint64_t *out)
{
	const struct fact *all =
		reader_read(exam->model->reader, "/proc/sys/net/ipv4/conf/all/%s", name);
	const struct fact *own =
		reader_read(exam->model->reader, "/proc/sys/net/ipv4/conf/%s/%s", netdev, name);
	uint64_t a = 0, b = 0;

	if (!parse_number(all->text, &a) && !parse_number(own->text, &b)) {
		unseen(exam, subject, all);
		return false;
	}
	parse_number(own->text, &b);
	*out = a > b ? a : b;
	return true;
}

static void arp_flux(struct exam *exam, const struct subject *subject)
{
	const struct netdev *netdev = subject->port->netdev, *other;
	uint64_t ignore, announce;
	struct finding *finding;

	if (!netdev || !shares_subnet(exam->model, netdev, &other) ||
	    !sysctl_max(exam, subject, netdev->name, "arp_ignore", &ignore) ||
	    !sysctl_max(exam, subject, netdev->name, "arp_announce", &announce))
		return;
	if (ignore >= 1 && announce >= 2)
		return;
	finding = found(exam, subject,
			say(exam, "/proc/sys/net/ipv4/conf/%s/arp_ignore", netdev->name),
			"arp_ignore %u, arp_announce %u; %s and %s are in one subnet",
			(unsigned)ignore, (unsigned)announce, netdev->name, other->name);
	finding->fix = "sysctl -w net.ipv4.conf.all.arp_ignore=2 net.ipv4.conf.all.arp_announce=2";
}

static void rp_filter(struct exam *exam, const struct subject *subject)
{
	const struct netdev *netdev = subject->port->netdev, *other;
	const struct fact *rules;
	uint64_t value;

	if (!netdev || !shares_subnet(exam->model, netdev, &other) ||
	    !sysctl_max(exam, subject, netdev->name, "rp_filter", &value) || value != 1)
		return;
	/* A rule for each source address makes the reverse path right. */
	rules = reader_read(exam->model->reader, "/.godwit/netlink/rules");
	if (strstr(rules->text, rail_address(exam->model, netdev)->text))
		return;
	found(exam, subject, say(exam, "/proc/sys/net/ipv4/conf/%s/rp_filter", netdev->name),
	      "1 (strict); %s and %s are in one subnet", netdev->name, other->name);
}

/* A host in the other rail's subnet that is not this one: the address with its last bit flipped. */
static const char *neighbour(struct exam *exam, const struct address *address)
{
	struct in_addr raw;
	char text[INET_ADDRSTRLEN];

	memcpy(&raw, address->raw, sizeof(raw));
	raw.s_addr ^= htonl(1);
	return say(exam, "%s", inet_ntop(AF_INET, &raw, text, sizeof(text)) ? text : "");
}

static void cross_rail(struct exam *exam, const struct subject *subject)
{
	const struct model *model = exam->model;
	const struct netdev *netdev = subject->port->netdev;
	const struct address *own = netdev ? rail_address(model, netdev) : NULL;

	if (!own || nccl_number(&exam->nccl, "NCCL_CROSS_NIC", 2) == 0)
		return;
	for (size_t i = 0; i < model->netdev_count; i++) {
		const struct address *theirs = rail_address(model, &model->netdevs[i]);
		const struct fact *route;
		char device[32];

		if (!theirs || &model->netdevs[i] == netdev || address_same_subnet(own, theirs))
			continue;
		route = reader_read(model->reader, "/.godwit/netlink/route/%s/from/%s",
				    neighbour(exam, theirs), own->text);
		if (!parse_value(route->text, "dev", device, sizeof(device))) {
			if (route->state != FACT_KNOWN)
				unseen(exam, subject, route);
			return;
		}
		if (strcmp(device, netdev->name) == 0)
			continue;
		found(exam, subject, route->path, "from %s to %s (the rail of %s) leaves by %s",
		      own->text, neighbour(exam, theirs), model->netdevs[i].name, device);
		return;
	}
}

static const struct check checks[] = {
	{
		.id = "arp-flux",
		.severity = SEVERITY_WARNING,
		.impact = 73,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED,
		.title = "several NICs answer ARP for one address",
		.healthy = "arp_ignore 1 or 2, arp_announce 2",
		.why = "A peer learns the wrong NIC's MAC: packets for one rail arrive at another and are dropped; connections fail by chance.",
		.fix = "sysctl -w net.ipv4.conf.all.arp_ignore=2 net.ipv4.conf.all.arp_announce=2",
		.explain =
			"Linux owns addresses as a host, not as an interface: any interface in the subnet answers for any address unless told otherwise.",
		.run = arp_flux,
	},
	{
		.id = "rp-filter",
		.severity = SEVERITY_WARNING,
		.impact = 69,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED,
		.title = "strict reverse path filtering with several NICs in one subnet",
		.healthy = "0 or 2, or a routing rule for each source address",
		.why = "The kernel drops what arrives on any NIC but the first: TCP and ARP of the others fail, and with them connection set-up.",
		.fix = "sysctl -w net.ipv4.conf.all.rp_filter=2",
		.explain = "The larger of conf/all and conf/INTERFACE counts.",
		.run = rp_filter,
	},
	{
		.id = "cross-rail",
		.severity = SEVERITY_WARNING,
		.impact = 51,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE,
		.title = "packets to another rail leave by the wrong NIC",
		.healthy = "the NIC that has the source address",
		.why = "NCCL connects rails crosswise unless NCCL_CROSS_NIC=0; RoCE sends by the NIC of its GID whatever the route says, and set-up over TCP goes another way.",
		.fix = "ip rule add from ADDRESS table N; ip route add default via GATEWAY dev INTERFACE table N; or NCCL_CROSS_NIC=0",
		.explain =
			"Asks the kernel for the route from this rail's address to a neighbour of the other rail (RTM_GETROUTE), as `ip route get DESTINATION from ADDRESS` does.",
		.run = cross_rail,
	},
};

const struct check_group checks_routes = CHECK_GROUP(checks);
