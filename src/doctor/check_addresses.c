/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of the RDMA interfaces, and the interface over which ranks meet. */
#include <string.h>
#include <sys/socket.h>

#include "exam.h"

static void roce_address(struct exam *exam, const struct subject *subject)
{
	const struct port *port = subject->port;
	const struct address *address = NULL;
	struct finding *finding;

	if (!port->netdev) {
		unseen_why(exam, subject, say(exam, "%s/gid_attrs/ndevs", port->path),
			   "the port does not name its interface");
		return;
	}
	if (!seen(exam, subject, exam->model->addresses_fact, true))
		return;
	while ((address = model_address(exam->model, port->netdev->name, address))) {
		if (!address_link_local(address))
			return;
	}
	finding = found(exam, subject, port->netdev->name,
			"interface %s has no address beyond its link", port->netdev->name);
	finding->fix = say(exam, "ip address add ADDRESS/LEN dev %s", port->netdev->name);
}

static void interface_up(struct exam *exam, const struct subject *subject)
{
	const struct netdev *netdev = subject->port->netdev;
	struct finding *finding;

	if (!netdev || !seen(exam, subject, netdev->operstate, false))
		return;
	if (strcmp(netdev->operstate->text, "down") != 0 &&
	    strcmp(netdev->operstate->text, "lowerlayerdown") != 0)
		return;
	finding = found(exam, subject, netdev->operstate->path, "%s", netdev->operstate->text);
	finding->fix = say(exam, "ip link set %s up", netdev->name);
}

/* Names of interfaces that lead to containers or guests of this host, never to other hosts. */
static const char *const inner[] = { "docker",	"veth", "virbr", "br-",	 "cni",
				     "flannel", "cali", "lxc",	 "tunl", "kube" };

static bool is_inner(const char *name)
{
	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
		if (strncmp(name, inner[i], strlen(inner[i])) == 0)
			return true;
	}
	return false;
}

static void bootstrap_interface(struct exam *exam, const struct subject *subject)
{
	const struct variable *variable = nccl_variable(&exam->nccl, "NCCL_SOCKET_IFNAME");
	const struct address *address;
	struct finding *finding;
	bool listed;

	if (!seen(exam, subject, exam->model->addresses_fact, true))
		return;
	address = nccl_bootstrap(&exam->nccl, &listed);
	if (address)
		diagnosis_note(exam->diagnosis, "bootstrap", "",
			       say(exam, "NCCL meets its peers over %s, %s", address->netdev,
				   address->text));
	if (!address) {
		finding = found(exam, subject, listed ? variable->where : "getifaddrs()",
				"no running interface with an address%s%s",
				listed ? " matches NCCL_SOCKET_IFNAME=" : "",
				listed ? variable->value : "");
		finding->severity = SEVERITY_ERROR;
	} else if (address->loopback) {
		found(exam, subject, listed ? variable->where : "getifaddrs()", "%s%s%s",
		      address->netdev, listed ? ", chosen by NCCL_SOCKET_IFNAME=" : "",
		      listed ? variable->value : "");
	} else if (address_link_local(address) || is_inner(address->netdev)) {
		found(exam, subject, listed ? variable->where : "getifaddrs()", "%s, %s",
		      address->netdev, address->text);
	}
}

static const struct check checks[] = {
	{
		.id = "roce-address",
		.severity = SEVERITY_ERROR,
		.impact = 91,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED,
		.title = "the RoCE interface has no IP address",
		.healthy = "a global address",
		.why = "RoCE v2 packets are IP packets; without an address the port has link-local GIDs only.",
		.fix = "ip address add ADDRESS/LEN dev INTERFACE",
		.explain =
			"Each address of the interface becomes a GID. An interface that is up without an address has only its link-local one.",
		.run = roce_address,
	},
	{
		.id = "interface-up",
		.severity = SEVERITY_ERROR,
		.impact = 89,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE,
		.title = "the interface of the RDMA port is down",
		.healthy = "up",
		.why = "The port cannot become active while its interface is down.",
		.fix = "ip link set INTERFACE up",
		.explain = "operstate is what ip link shows as state.",
		.run = interface_up,
	},
	{
		.id = "bootstrap-interface",
		.severity = SEVERITY_WARNING,
		.impact = 75,
		.gates = GATE_NCCL,
		.title = "NCCL meets its peers over an interface they cannot reach",
		.healthy = "an interface with an address that all hosts reach",
		.why = "Ranks exchange their addresses over TCP first: on the wrong interface the job hangs at start-up, or times out.",
		.fix = "NCCL_SOCKET_IFNAME==eth0 (the = means exactly this name)",
		.explain =
			"Without NCCL_SOCKET_IFNAME NCCL takes interfaces whose name begins with ib, then any but docker*, lo and virbr*. With NCCL_SOCKET_IFNAME=^docker0 only docker0 is excluded, and lo is back in the list, first. Names are prefixes unless they begin with =.",
		.run = bootstrap_interface,
	},
};

const struct check_group checks_addresses = CHECK_GROUP(checks);
