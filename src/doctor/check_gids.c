/* SPDX-License-Identifier: BSD-3-Clause */
/* GIDs as NCCL would choose them. */
#include <string.h>

#include "exam.h"

static const char *version_name(enum gid_type type)
{
	return type == GID_ROCE_V2   ? "RoCE v2"
	       : type == GID_ROCE_V1 ? "RoCE v1"
				     : "version unknown";
}

/* "index 3, 10.0.0.1, RoCE v2" */
static const char *describe(struct exam *exam, const struct gid_choice *choice)
{
	char text[INET6_ADDRSTRLEN];

	if (!choice->gid)
		return say(exam, "index %u, which is empty", choice->index);
	return say(exam, "index %u, %s, %s", choice->index, gid_text(choice->gid->raw, text),
		   version_name(choice->gid->type));
}

static void note_choice(struct exam *exam, const struct port *port, const struct gid_choice *choice)
{
	static const char *const reasons[] = {
		[GID_PINNED] = "NCCL_IB_GID_INDEX names it",
		[GID_MATCHED] = "family, range and version match",
		[GID_FALLBACK] = "nothing matched",
		[GID_INFINIBAND] = "InfiniBand",
	};

	diagnosis_note(exam->diagnosis, "nccl-gid", say(exam, "%s", port->name),
		       say(exam, "%s (%s)", describe(exam, choice), reasons[choice->reason]));
}

static const char *advise(struct exam *exam, const struct port *port)
{
	const char *netdev = netdev_name(port);
	bool global_v6 = false;

	for (size_t i = 0; i < port->gid_count; i++) {
		const struct gid *gid = &port->gids[i];

		global_v6 |= gid->type == GID_ROCE_V2 && !gid_maps_ipv4(gid->raw) &&
			     !gid_is_link_local(gid->raw);
	}
	if (nccl_text(&exam->nccl, "NCCL_IB_GID_INDEX"))
		return "unset NCCL_IB_GID_INDEX: NCCL 2.21 and newer choose well";
	if (nccl_text(&exam->nccl, "NCCL_IB_ADDR_RANGE"))
		return "correct NCCL_IB_ADDR_RANGE, or unset it";
	if (global_v6)
		return "NCCL_IB_ADDR_FAMILY=AF_INET6";
	return say(exam, "ip address add ADDRESS/LEN dev %s", netdev[0] ? netdev : "INTERFACE");
}

static void gid_choice(struct exam *exam, const struct subject *subject)
{
	struct gid_choice choice;
	struct finding *finding;

	nccl_choose_gid(&exam->nccl, subject->port, &choice);
	note_choice(exam, subject->port, &choice);
	if (choice.gid && choice.gid->type == GID_ROCE_V2 && !gid_is_link_local(choice.gid->raw))
		return;
	finding = found(exam, subject, say(exam, "%s/gids", subject->port->path), "%s%s",
			describe(exam, &choice),
			choice.reason == GID_FALLBACK ? ": nothing matched, so NCCL keeps index 0"
						      : "");
	finding->fix = advise(exam, subject->port);
}

static void gid_infiniband(struct exam *exam, const struct subject *subject)
{
	struct gid_choice choice;

	nccl_choose_gid(&exam->nccl, subject->port, &choice);
	note_choice(exam, subject->port, &choice);
	if (!choice.gid)
		found(exam, subject, say(exam, "%s/gids", subject->port->path), "%s",
		      describe(exam, &choice));
}

static void gid_pinned(struct exam *exam, const struct subject *subject)
{
	const struct variable *variable = nccl_variable(&exam->nccl, "NCCL_IB_GID_INDEX");
	struct finding *finding;

	if (!variable || nccl_number(&exam->nccl, "NCCL_IB_GID_INDEX", -1) < 0)
		return;
	finding = found(exam, subject, variable->where, "NCCL_IB_GID_INDEX=%s", variable->value);
	for (size_t i = 0; i < exam->model->device_count; i++) {
		const struct device *device = &exam->model->devices[i];

		if (device->port_count && device->ports[0].link_layer == LINK_ETHERNET)
			return;
	}
	finding->severity = SEVERITY_INFO;
	finding->title = "NCCL_IB_GID_INDEX is set, and ignored on InfiniBand";
}

/* Returns the index of the port's first RoCE v2 entry with an IPv4 address, or -1. */
static int good_index(const struct port *port)
{
	for (size_t i = 0; i < port->gid_count; i++) {
		if (port->gids[i].type == GID_ROCE_V2 && gid_maps_ipv4(port->gids[i].raw))
			return (int)port->gids[i].index;
	}
	return -1;
}

static void gid_index_equal(struct exam *exam, const struct subject *subject)
{
	const struct port *first = NULL;

	if (nccl_number(&exam->nccl, "NCCL_IB_GID_INDEX", -1) < 0)
		return;
	for (size_t i = 0; i < exam->model->device_count; i++) {
		const struct device *device = &exam->model->devices[i];

		for (size_t j = 0; j < device->port_count; j++) {
			const struct port *port = &device->ports[j];

			if (port->link_layer != LINK_ETHERNET || good_index(port) < 0 ||
			    !nccl_takes_port(&exam->nccl, port))
				continue;
			if (first && good_index(first) != good_index(port)) {
				found(exam, subject, "/sys/class/infiniband/*/ports/*/gids",
				      "%s has it at %d, %s at %d", first->name, good_index(first),
				      port->name, good_index(port));
				return;
			}
			if (!first)
				first = port;
		}
	}
}

static void gid_hidden(struct exam *exam, const struct subject *subject)
{
	const struct port *port = subject->port;
	const struct fact *mode = reader_read(exam->model->reader, "/.godwit/netlink/rdma/system");
	size_t hidden = 0;

	for (size_t i = 0; i < port->gid_count; i++)
		hidden += port->gids[i].type_state == FACT_REFUSED;
	if (port->gid_count && hidden < port->gid_count)
		return;
	found(exam, subject, say(exam, "%s/gid_attrs/types", port->path),
	      "%zu GIDs, %zu of them without a readable type%s%s", port->gid_count, hidden,
	      mode->state == FACT_KNOWN ? "; RDMA " : "",
	      mode->state == FACT_KNOWN ? mode->text : "");
}

static const struct check checks[] = {
	{
		.id = "gid-choice",
		.severity = SEVERITY_ERROR,
		.impact = 94,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED,
		.title = "NCCL will use an address that other hosts cannot reach",
		.healthy = "RoCE v2 with an IPv4 or a global IPv6 address",
		.why = "A link-local or RoCE v1 address does not cross a router: the job ends with \"error 12\" (retries exceeded) half a minute in.",
		.fix = "ip address add ADDRESS/LEN dev INTERFACE",
		.explain =
			"NCCL walks the GID table from index 1 and takes an entry of the wanted family (NCCL_IB_ADDR_FAMILY, default IPv4) in NCCL_IB_ADDR_RANGE, preferring RoCE v2. If nothing matches it keeps index 0, usually a link-local RoCE v1 address, without a word in its log. This check replays that choice; --verbose shows it for each port. show_gids or /sys/class/infiniband/DEVICE/ports/1/gids show the table.",
		.run = gid_choice,
	},
	{
		.id = "gid-infiniband",
		.severity = SEVERITY_ERROR,
		.impact = 93,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_INFINIBAND | GATE_USED,
		.title = "the port has no GID",
		.healthy = "index 0 set (a link-local address is normal here)",
		.why = "NCCL cannot describe the port to its peers.",
		.fix = "check the subnet manager, then rdma link show",
		.explain =
			"On InfiniBand NCCL uses GID index 0, or NCCL_IB_ROUTABLE_FLID_GID_INDEX (1) if that entry has a routable FLID. NCCL_IB_GID_INDEX is ignored.",
		.run = gid_infiniband,
	},
	{
		.id = "gid-pinned",
		.severity = SEVERITY_WARNING,
		.impact = 50,
		.gates = GATE_RDMA,
		.title = "the GID index is pinned",
		.healthy = "unset (NCCL 2.21 and newer choose by address)",
		.why = "Indexes move when an address or an interface is added: what is right today is another address after the next reboot.",
		.fix = "unset NCCL_IB_GID_INDEX; to choose among addresses use NCCL_IB_ADDR_RANGE=10.0.0.0/16",
		.explain =
			"Before 2.21 NCCL used index 0 unless told; the variable is a relic of that time in most launch scripts.",
		.run = gid_pinned,
	},
	{
		.id = "gid-index-equal",
		.severity = SEVERITY_ERROR,
		.impact = 88,
		.gates = GATE_RDMA,
		.title = "the pinned GID index means different addresses on different NICs",
		.healthy = "RoCE v2 with IPv4 at the same index everywhere",
		.why = "One index for all NICs is wrong for at least one of them.",
		.fix = "unset NCCL_IB_GID_INDEX",
		.explain =
			"The order of a GID table depends on the order in which addresses were added.",
		.run = gid_index_equal,
	},
	{
		.id = "gid-hidden",
		.severity = SEVERITY_ERROR,
		.impact = 92,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_ACTIVE,
		.title = "the port's GIDs are hidden from this namespace",
		.healthy = "readable types",
		.why = "The NIC is visible but its addresses belong to another network namespace: queue pairs cannot be connected.",
		.fix = "give the container the interface, too: hostNetwork, or an RDMA CNI with `rdma system set netns exclusive`",
		.explain =
			"In shared mode every container sees every RDMA device, but GIDs belong to the namespace of the interface, and reading their type elsewhere fails with EINVAL.",
		.run = gid_hidden,
	},
};

const struct check_group checks_gids = CHECK_GROUP(checks);
