/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hosts of a cluster should have in common. A thing that each port has is one fact: the value if all ports of the host
 * agree, or a list.
 */
#include <stdio.h>
#include <string.h>

#include "cluster.h"
#include "parse.h"
#include "qos.h"

void host_facts_add(struct host_facts *out, enum host_aspect aspect, const char *name,
		    const char *value, const char *where)
{
	struct host_fact *fact;

	if (!out || out->count == HOST_FACTS_MAX || !value || !value[0])
		return;
	fact = &out->fact[out->count++];
	fact->aspect = aspect;
	fact->name = scratch_copy(out->scratch, name, strlen(name));
	fact->value = scratch_copy(out->scratch, value, strnlen(value, 240));
	fact->where = scratch_copy(out->scratch, where, strlen(where));
}

static void add_file(struct exam *exam, struct host_facts *out, enum host_aspect aspect,
		     const char *name, const char *path)
{
	const struct fact *fact = reader_read(exam->model->reader, "%s", path);

	if (fact->state == FACT_KNOWN)
		host_facts_add(out, aspect, name, fact->text, path);
}

/* Writes the value of one port; returns false if it is not known or does not concern the port. */
typedef bool port_value(struct exam *exam, const struct port *port, char *out, size_t size);

static bool firmware_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	const struct fact *fact = reader_read(exam->model->reader, "%s/fw_ver", port->device->path);

	snprintf(out, size, "%s", fact->text);
	return fact->state == FACT_KNOWN;
}

static bool rate_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	snprintf(out, size, "%s", port->rate->text);
	return port->active && port->rate->state == FACT_KNOWN;
}

static bool mtu_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	snprintf(out, size, "%u", port->netdev ? port->netdev->mtu_bytes : 0);
	return port->active && port->netdev && port->netdev->mtu_bytes &&
	       port->link_layer == LINK_ETHERNET;
}

static bool rdma_mtu_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	const struct fact *fact = reader_read(exam->model->reader, "/.godwit/verbs/port/%s/%u",
					      port->device->name, port->number);
	uint64_t mtu;

	if (!port->active || !parse_value_number(fact->text, "active_mtu", &mtu))
		return false;
	snprintf(out, size, "%llu", (unsigned long long)mtu);
	return true;
}

static bool gid_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	static const char *const types[] = { "of unknown type", "RoCE v1", "RoCE v2" };
	struct gid_choice choice;

	if (port->link_layer != LINK_ETHERNET || !nccl_takes_port(&exam->nccl, port))
		return false;
	nccl_choose_gid(&exam->nccl, port, &choice);
	snprintf(out, size, "%u (%s)", choice.index,
		 choice.gid ? types[choice.gid->type] : "empty");
	return true;
}

static bool class_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	const char *name = "";
	struct qos qos = { 0 };
	unsigned class;

	if (port->link_layer != LINK_ETHERNET || !nccl_takes_port(&exam->nccl, port))
		return false;
	class = qos_traffic_class(exam, port, &name);
	qos_read(exam, port, &qos);
	if (qos.trust == TRUST_UNKNOWN)
		snprintf(out, size, "%u", class);
	else
		snprintf(out, size, "%u, priority %u (trust %s)", class, qos_priority(&qos, class),
			 qos.trust == TRUST_DSCP ? "dscp" : "pcp");
	return true;
}

static bool pfc_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	struct qos qos = { 0 };
	size_t length = 0;

	if (port->link_layer != LINK_ETHERNET || !port->netdev)
		return false;
	qos_read(exam, port, &qos);
	if (!qos.pfc_known)
		return false;
	snprintf(out, size, "off");
	for (unsigned i = 0; i < 8; i++) {
		if (qos.pfc & (1u << i))
			length += (size_t)snprintf(out + length, size - length, "%s%u",
						   length ? ", " : "priority ", i);
	}
	return true;
}

static bool strict_of(struct exam *exam, const struct port *port, char *out, size_t size)
{
	static const char *const names[] = { "rp_filter", "arp_ignore", "arp_announce" };
	size_t length = 0;

	if (!port->netdev || port->link_layer != LINK_ETHERNET)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct fact *all = reader_read(exam->model->reader,
						     "/proc/sys/net/ipv4/conf/all/%s", names[i]);
		const struct fact *own =
			reader_read(exam->model->reader, "/proc/sys/net/ipv4/conf/%s/%s",
				    port->netdev->name, names[i]);
		uint64_t a = 0, b = 0;

		if (!parse_number(all->text, &a) || !parse_number(own->text, &b))
			return false;
		/* The kernel takes the larger one of both. */
		length += (size_t)snprintf(out + length, size - length, "%s%s %u", i ? ", " : "",
					   names[i], (unsigned)((a > b ? a : b) % 10));
	}
	return true;
}

static void add_ports(struct exam *exam, struct host_facts *out, enum host_aspect aspect,
		      const char *name, port_value *value)
{
	const struct model *model = exam->model;
	struct builder list = { 0 };
	char first[128] = "", text[128];
	bool agree = true;

	for (size_t i = 0; i < model->device_count; i++) {
		for (size_t j = 0; j < model->devices[i].port_count; j++) {
			const struct port *port = &model->devices[i].ports[j];

			if (!value(exam, port, text, sizeof(text)))
				continue;
			if (!first[0])
				snprintf(first, sizeof(first), "%s", text);
			agree &= strcmp(first, text) == 0;
			builder_print(&list, "%s%s: %s", list.length ? ", " : "",
				      port->device->name, text);
		}
	}
	if (first[0])
		host_facts_add(out, aspect, name, agree ? first : list.text, "its RDMA ports");
	builder_free(&list);
}

static void add_port_count(struct exam *exam, struct host_facts *out)
{
	const struct model *model = exam->model;
	unsigned active = 0, all = 0;
	char text[64];

	for (size_t i = 0; i < model->device_count; i++) {
		for (size_t j = 0; j < model->devices[i].port_count; j++) {
			all++;
			active += model->devices[i].ports[j].active;
		}
	}
	snprintf(text, sizeof(text), "%u of %u", active, all);
	host_facts_add(out, ASPECT_PORTS, "number of active RDMA ports", text,
		       "/sys/class/infiniband");
}

static void add_drivers(struct exam *exam, struct host_facts *out)
{
	const struct model *model = exam->model;

	for (size_t i = 0; i < model->device_count; i++) {
		const char *driver = model->devices[i].driver_name;
		const char *module = driver && strncmp(driver, "mlx5", 4) == 0 ? "mlx5_core"
				     : driver				       ? driver
									       : "";
		char name[128];
		bool again = false;

		for (size_t j = 0; j < i; j++)
			again |= driver && model->devices[j].driver_name &&
				 strcmp(model->devices[j].driver_name, driver) == 0;
		if (again || !module[0])
			continue;
		snprintf(name, sizeof(name), "version of the driver %s", module);
		add_file(
			exam, out, ASPECT_DRIVER, name,
			scratch_print(&exam->diagnosis->scratch, "/sys/module/%s/version", module));
	}
	add_file(exam, out, ASPECT_GPU, "version of the GPU driver", "/sys/module/nvidia/version");
}

static void add_variables(struct exam *exam, struct host_facts *out)
{
	static const char *const own[] = { "NCCL_HOSTID", "NCCL_DEBUG_FILE", "NCCL_COMM_ID" };

	for (size_t i = 0; i < exam->nccl.count; i++) {
		const struct variable *variable = &exam->nccl.variables[i];
		bool skipped = strncmp(variable->name, "NCCL_", 5) != 0 ||
			       nccl_variable(&exam->nccl, variable->name) != variable;

		for (size_t j = 0; j < sizeof(own) / sizeof(own[0]); j++)
			skipped |= strcmp(variable->name, own[j]) == 0;
		if (!skipped)
			host_facts_add(out, ASPECT_VARIABLE, variable->name, variable->value,
				       variable->where);
	}
}

static void add_rules(struct exam *exam, struct host_facts *out)
{
	const struct fact *rules = reader_read(exam->model->reader, "/.godwit/netlink/rules");
	unsigned count = 0;
	char text[32];

	if (rules->state != FACT_KNOWN)
		return;
	for (const char *at = rules->text; (at = strstr(at, "rule ")); at += 5)
		count++;
	snprintf(text, sizeof(text), "%u", count);
	host_facts_add(out, ASPECT_ROUTES, "number of routing rules", text, "ip rule");
}

void host_facts(struct exam *exam, struct host_facts *out)
{
	add_file(exam, out, ASPECT_KERNEL, "kernel", "/proc/sys/kernel/osrelease");
	add_drivers(exam, out);
	add_variables(exam, out);
	add_rules(exam, out);
	if (!exam->model->device_count)
		return;
	add_port_count(exam, out);
	add_ports(exam, out, ASPECT_FIRMWARE, "firmware of the RDMA NICs", firmware_of);
	add_ports(exam, out, ASPECT_PORTS, "rate of the RDMA ports", rate_of);
	add_ports(exam, out, ASPECT_MTU, "MTU of the RDMA interfaces", mtu_of);
	add_ports(exam, out, ASPECT_MTU, "RDMA MTU", rdma_mtu_of);
	add_ports(exam, out, ASPECT_GID, "GID index that NCCL takes", gid_of);
	add_ports(exam, out, ASPECT_TC, "traffic class of NCCL", class_of);
	add_ports(exam, out, ASPECT_PFC, "PFC", pfc_of);
	add_ports(exam, out, ASPECT_ROUTES, "source filters of the RDMA interfaces", strict_of);
}
