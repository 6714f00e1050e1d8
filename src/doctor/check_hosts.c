/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks on a cluster: what most hosts have, and the hosts that differ. */
#include <string.h>

#include "cluster.h"

#define VALUES_MAX  16u
#define HOSTS_SHOWN 6u

/* One thing with one value, and the hosts that have it. */
struct camp {
	const char *value;
	const struct host_fact *fact;
	size_t count;
	struct builder hosts;
};

static const struct host_fact *fact_of(const struct cluster_host *host, const char *name)
{
	for (unsigned i = 0; i < host->facts.count; i++) {
		if (strcmp(host->facts.fact[i].name, name) == 0)
			return &host->facts.fact[i];
	}
	return NULL;
}

static struct camp *join(struct camp *camps, unsigned *count, const char *value)
{
	for (unsigned i = 0; i < *count; i++) {
		if (strcmp(camps[i].value, value) == 0)
			return &camps[i];
	}
	/* The last camp takes all that are left over. */
	if (*count == VALUES_MAX)
		return &camps[VALUES_MAX - 1];
	camps[*count].value = value;
	return &camps[(*count)++];
}

/* Lists hosts: "node5", "node5, node7 and 3 more". */
static void add_host(struct camp *camp, const char *name)
{
	if (camp->count < HOSTS_SHOWN)
		builder_print(&camp->hosts, "%s%s", camp->count ? ", " : "", name);
	camp->count++;
}

static const char *camp_hosts(struct exam *exam, const struct camp *camp)
{
	if (camp->count <= HOSTS_SHOWN)
		return say(exam, "%s", camp->hosts.text);
	return say(exam, "%s and %zu more", camp->hosts.text, camp->count - HOSTS_SHOWN);
}

static void tell(struct exam *exam, const char *name, struct camp *camps, unsigned count,
		 size_t total)
{
	struct finding *finding = check_finding(exam->check, exam->diagnosis);
	const struct camp *most = &camps[0], *few;
	const struct host_fact *evidence;
	struct builder text = { 0 }, objects = { 0 };

	for (unsigned i = 1; i < count; i++) {
		if (camps[i].count > most->count)
			most = &camps[i];
	}
	few = most == &camps[0] ? &camps[1] : &camps[0];
	builder_print(&text, "%s: %zu of %zu hosts have %s", name, most->count, total, most->value);
	for (unsigned i = 0; i < count; i++) {
		const char *hosts;

		if (&camps[i] == most)
			continue;
		hosts = camp_hosts(exam, &camps[i]);
		builder_print(&text, ", %s %s %s", hosts, camps[i].count == 1 ? "has" : "have",
			      camps[i].value);
		builder_print(&objects, "%s%s", objects.length ? ", " : "", hosts);
	}
	finding->value = say(exam, "%s", text.text);
	finding->object = say(exam, "%s", objects.text);
	evidence = few->fact ? few->fact : most->fact;
	finding->where = evidence ? say(exam, "%s", evidence->where) : "";
	finding->brief = count == 2 ? say(exam, "%s: %zu of %zu hosts have %s, %s %s %s", name,
					  most->count, total, most->value, camp_hosts(exam, few),
					  few->count == 1 ? "has" : "have", few->value)
				    : say(exam, "%s has %u different values on %zu hosts", name,
					  count, total);
	builder_free(&text);
	builder_free(&objects);
}

/* Compares one thing over all hosts that say it; a variable that a host does not set has a value, too. */
static void compare(struct exam *exam, const char *name, bool absence_counts)
{
	const struct cluster *cluster = exam->cluster;
	struct camp camps[VALUES_MAX] = { 0 };
	unsigned count = 0;
	size_t total = 0;

	for (size_t i = 0; i < cluster->host_count; i++) {
		const struct host_fact *fact = fact_of(cluster->hosts[i], name);
		struct camp *camp;

		if (!fact && !absence_counts)
			continue;
		camp = join(camps, &count, fact ? fact->value : "no value");
		if (!camp->fact)
			camp->fact = fact;
		add_host(camp, cluster->hosts[i]->name);
		total++;
	}
	if (count > 1)
		tell(exam, name, camps, count, total);
	for (unsigned i = 0; i < count; i++)
		builder_free(&camps[i].hosts);
}

/* Compares everything of one aspect: each name once. */
static void compare_aspect(struct exam *exam, enum host_aspect aspect, bool absence_counts)
{
	const struct cluster *cluster = exam->cluster;
	const char *told[HOST_FACTS_MAX];
	unsigned count = 0;

	for (size_t i = 0; i < cluster->host_count; i++) {
		const struct host_facts *facts = &cluster->hosts[i]->facts;

		for (unsigned j = 0; j < facts->count; j++) {
			unsigned k = 0;

			if (facts->fact[j].aspect != aspect)
				continue;
			while (k < count && strcmp(told[k], facts->fact[j].name) != 0)
				k++;
			if (k < count || count == HOST_FACTS_MAX)
				continue;
			told[count++] = facts->fact[j].name;
			compare(exam, facts->fact[j].name, absence_counts);
		}
	}
}

#define COMPARES(function, aspect, absence)                                                        \
	static void function(struct exam *exam, const struct subject *subject)                     \
	{                                                                                          \
		compare_aspect(exam, aspect, absence);                                             \
	}

COMPARES(check_kernel, ASPECT_KERNEL, false)
COMPARES(check_driver, ASPECT_DRIVER, false)
COMPARES(check_firmware, ASPECT_FIRMWARE, false)
COMPARES(check_ports, ASPECT_PORTS, false)
COMPARES(check_mtu, ASPECT_MTU, false)
COMPARES(check_gid, ASPECT_GID, false)
COMPARES(check_class, ASPECT_TC, false)
COMPARES(check_pfc, ASPECT_PFC, false)
COMPARES(check_plugin, ASPECT_PLUGIN, true)
COMPARES(check_variable, ASPECT_VARIABLE, true)
COMPARES(check_routes, ASPECT_ROUTES, false)
COMPARES(check_gpu, ASPECT_GPU, false)

static const struct check checks[] = {
	{ "hosts-mtu", SEVERITY_ERROR, 79, SCOPE_CLUSTER, GATE_NONE, "hosts have different MTUs",
	  "one MTU on all hosts and switches",
	  "Packets larger than the least MTU are dropped without a word: small messages pass, large ones hang or end in error 12.",
	  "ip link set INTERFACE mtu VALUE on the hosts named above; the switch ports must be as large",
	  "A host that was installed anew, a driver that came up with 1500, a bond whose members differ.",
	  check_mtu },
	{ "hosts-gid", SEVERITY_WARNING, 78, SCOPE_CLUSTER, GATE_NONE,
	  "NCCL takes different GID indices on different hosts", "one kind of GID",
	  "An index is a host's own affair unless NCCL_IB_GID_INDEX pins it; another type of GID (RoCE v1 and v2) cannot connect.",
	  "unset NCCL_IB_GID_INDEX; the same addresses (IPv4, no leftover VLAN) on the RDMA interfaces",
	  "The order of the GID table follows the order in which addresses came.", check_gid },
	{ "hosts-tc", SEVERITY_ERROR, 74, SCOPE_CLUSTER, GATE_NONE,
	  "hosts put NCCL's traffic into different classes", "one class and one priority",
	  "Part of the traffic travels outside the lossless priority: it is dropped under load, and the job runs at the pace of that host.",
	  "NCCL_IB_TC for all hosts; mlnx_qos -i INTERFACE --trust dscp",
	  "trust was set by hand and is gone after a restart, or NCCL_IB_TC is in one host's nccl.conf.",
	  check_class },
	{ "hosts-pfc", SEVERITY_ERROR, 73, SCOPE_CLUSTER, GATE_NONE, "PFC differs between hosts",
	  "the same priorities on all hosts",
	  "A host without PFC overruns the switch or is overrun by it: loss, retransmissions, error 12.",
	  "mlnx_qos -i INTERFACE --pfc ... or dcb pfc set dev INTERFACE prio-pfc ...",
	  "Settings that are lost at a restart; DCBX that one switch port negotiates otherwise.",
	  check_pfc },
	{ "hosts-ports", SEVERITY_ERROR, 77, SCOPE_CLUSTER, GATE_NONE,
	  "hosts have different RDMA ports or rates", "the same ports at the same rate",
	  "Collectives run at the pace of the host with the least.",
	  "godwit doctor --only port-state,port-rate on the hosts named above",
	  "A port that is down, a cable or a switch port that negotiated a lower rate.",
	  check_ports },
	{ "hosts-variables", SEVERITY_WARNING, 70, SCOPE_CLUSTER, GATE_NONE,
	  "a variable of NCCL differs between hosts", "the same values on all hosts",
	  "Ranks that disagree hang, or run at the pace of the slowest.",
	  "one nccl.conf for all hosts; the job's script exports the rest",
	  "Compares the environment at the time of the capture (--pid takes the job's) and nccl.conf.",
	  check_variable },
	{ "hosts-plugin", SEVERITY_ERROR, 72, SCOPE_CLUSTER, GATE_NONE,
	  "NCCL's plugin differs between hosts", "one plugin on all hosts",
	  "Two plugins do not speak with each other: the job hangs at its first connection.",
	  "the same container image and LD_LIBRARY_PATH on all hosts",
	  "libnccl-net.so that only some hosts have.", check_plugin },
	{ "hosts-firmware", SEVERITY_WARNING, 58, SCOPE_CLUSTER, GATE_NONE,
	  "NICs have different firmware", "one firmware",
	  "Defaults of congestion control and bugs differ; outliers are the first suspects when one host is slow.",
	  "mlxfwmanager -u, or the vendor's tool, on the hosts named above",
	  "A NIC that was replaced, a host that missed an update.", check_firmware },
	{ "hosts-driver", SEVERITY_WARNING, 56, SCOPE_CLUSTER, GATE_NONE,
	  "hosts have different RDMA drivers", "one driver",
	  "Defaults differ between driver versions.", "install the same driver everywhere",
	  "MLNX_OFED or DOCA on some hosts and the kernel's own driver on others.", check_driver },
	{ "hosts-gpu-driver", SEVERITY_WARNING, 55, SCOPE_CLUSTER, GATE_NONE,
	  "hosts have different GPU drivers", "one driver",
	  "NCCL chooses by the driver what it can do (dma-buf, NVLS): hosts that differ agree on less, or fail.",
	  "install the same driver everywhere", "A host that missed an update.", check_gpu },
	{ "hosts-kernel", SEVERITY_WARNING, 50, SCOPE_CLUSTER, GATE_NONE,
	  "hosts run different kernels", "one kernel",
	  "Drivers and defaults come with it: such a host is a suspect when it is the slow one.",
	  "install the same kernel everywhere", "A host that was not restarted after an update.",
	  check_kernel },
	{ "hosts-routes", SEVERITY_WARNING, 57, SCOPE_CLUSTER, GATE_NONE,
	  "routing differs between hosts", "the same rules and filters",
	  "With several NICs in one subnet, answers leave by another NIC or are dropped, on that host only.",
	  "ip rule; sysctl net.ipv4.conf.INTERFACE.{rp_filter,arp_ignore,arp_announce} as on the other hosts",
	  "Rules and sysctls that a script sets and that did not run.", check_routes },
};

const struct check_group checks_hosts = CHECK_GROUP(checks);
