/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices come from /sys/class/infiniband, interfaces from /sys/class/net, GPUs from the PCI bus. */
#include "model.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "parse.h"

#define VENDOR_NVIDIA "0x10de"
#define VENDOR_AMD    "0x1002"

static const struct {
	const char *name;
	enum driver driver;
} drivers[] = {
	{ "mlx5_core", DRIVER_MLX5 }, { "mlx4_core", DRIVER_MLX4 }, { "bnxt_en", DRIVER_BNXT },
	{ "bnxt_re", DRIVER_BNXT },   { "ice", DRIVER_IRDMA },	    { "i40e", DRIVER_IRDMA },
	{ "idpf", DRIVER_IRDMA },     { "irdma", DRIVER_IRDMA },    { "efa", DRIVER_EFA },
	{ "hns3", DRIVER_HNS },	      { "erdma", DRIVER_ERDMA },
};

/* Devices without a PCI function behind them go by their names. */
static enum driver soft_driver(const char *name)
{
	if (strncmp(name, "rxe", 3) == 0)
		return DRIVER_RXE;
	return strncmp(name, "siw", 3) == 0 ? DRIVER_SIW : DRIVER_OTHER;
}

static const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_bdf(const char *text)
{
	return strlen(text) == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.';
}

static void load_device_parent(struct model *model, struct device *device)
{
	struct reader *reader = model->reader;
	const struct fact *real = reader_real(reader, "%s/device", device->path);
	const struct fact *driver;
	const char *bdf = last_component(real->text);

	device->driver = soft_driver(device->name);
	device->soft = device->driver == DRIVER_RXE || device->driver == DRIVER_SIW;
	device->driver_name = device->driver == DRIVER_RXE   ? "rdma_rxe"
			      : device->driver == DRIVER_SIW ? "siw"
							     : "";
	if (real->state != FACT_KNOWN || !is_bdf(bdf))
		return;
	device->pci = bdf;
	device->pci_path = real->text;
	device->vf = reader_link(reader, "%s/physfn", real->text)->state == FACT_KNOWN;
	driver = reader_link(reader, "%s/driver", real->text);
	if (driver->state != FACT_KNOWN)
		return;
	device->driver_name = last_component(driver->text);
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
		if (strcmp(drivers[i].name, device->driver_name) == 0)
			device->driver = drivers[i].driver;
	}
}

/* Which /dev/infiniband/uverbsN belongs to the device. */
static void load_uverbs(struct model *model, struct device *device)
{
	const struct names *names = reader_list(model->reader, "/sys/class/infiniband_verbs");

	for (size_t i = 0; i < names->count; i++) {
		const struct fact *owner;

		if (strncmp(names->name[i], "uverbs", 6) != 0)
			continue;
		owner = reader_read(model->reader, "/sys/class/infiniband_verbs/%s/ibdev",
				    names->name[i]);
		if (owner->state == FACT_KNOWN && strcmp(owner->text, device->name) == 0)
			device->uverbs = names->name[i];
	}
}

static void load_gid_attributes(struct model *model, const struct port *port, struct gid *gid)
{
	const struct fact *type =
		reader_read(model->reader, "%s/gid_attrs/types/%u", port->path, gid->index);
	const struct fact *netdev =
		reader_read(model->reader, "%s/gid_attrs/ndevs/%u", port->path, gid->index);

	gid->type_state = type->state;
	gid->type_error = type->error;
	if (strcmp(type->text, "RoCE v2") == 0)
		gid->type = GID_ROCE_V2;
	else if (strcmp(type->text, "IB/RoCE v1") == 0 || strcmp(type->text, "RoCE v1") == 0)
		gid->type = GID_ROCE_V1;
	gid->netdev = netdev->text;
}

static void load_gids(struct model *model, struct port *port)
{
	static const uint8_t empty[16];
	const struct names *names = reader_list(model->reader, "%s/gids", port->path);

	port->gid_table = (unsigned)names->count;
	port->gids = scratch_alloc(model->scratch, (names->count + 1) * sizeof(port->gids[0]));
	for (size_t i = 0; i < names->count; i++) {
		struct gid *gid = &port->gids[port->gid_count];
		const struct fact *fact =
			reader_read(model->reader, "%s/gids/%s", port->path, names->name[i]);
		uint64_t index;

		if (fact->state != FACT_KNOWN || !parse_gid(fact->text, gid->raw) ||
		    memcmp(gid->raw, empty, 16) == 0 || !parse_number(names->name[i], &index))
			continue;
		gid->index = (unsigned)index;
		load_gid_attributes(model, port, gid);
		port->gid_count++;
	}
}

/* The port's interface is the one that its GIDs name; without such names, the one that the PCI function has. */
static void find_netdev(struct model *model, struct port *port)
{
	for (size_t i = 0; i < port->gid_count && !port->netdev; i++) {
		if (port->gids[i].netdev[0])
			port->netdev = model_netdev(model, port->gids[i].netdev);
	}
	if (!port->netdev && port->device->pci_path) {
		const struct names *names =
			reader_list(model->reader, "%s/net", port->device->pci_path);

		if (names->count == 1)
			port->netdev = model_netdev(model, names->name[0]);
	}
	if (port->netdev)
		port->netdev->rdma = true;
}

static void load_port(struct model *model, const struct device *device, const char *number,
		      struct port *port)
{
	struct reader *reader = model->reader;
	unsigned state;

	port->device = device;
	port->number = (unsigned)atoi(number);
	port->name = scratch_print(model->scratch, "%s port %u", device->name, port->number);
	port->path = scratch_print(model->scratch, "%s/ports/%s", device->path, number);
	port->state = reader_read(reader, "%s/state", port->path);
	port->phys_state = reader_read(reader, "%s/phys_state", port->path);
	port->rate = reader_read(reader, "%s/rate", port->path);
	port->link_layer_fact = reader_read(reader, "%s/link_layer", port->path);
	if (strcmp(port->link_layer_fact->text, "Ethernet") == 0)
		port->link_layer = LINK_ETHERNET;
	else if (strcmp(port->link_layer_fact->text, "InfiniBand") == 0)
		port->link_layer = LINK_INFINIBAND;
	port->active = parse_leading(port->state->text, &state) && state == 4;
	if (!parse_port_rate(port->rate->text, &port->rate_bps))
		port->rate_bps = 0;
	load_gids(model, port);
	find_netdev(model, port);
	port->counters_list = reader_list(reader, "%s/counters", port->path);
	counters_add_directory(&port->counters, reader,
			       scratch_print(model->scratch, "%s/counters", port->path));
	counters_add_directory(&port->counters, reader,
			       scratch_print(model->scratch, "%s/hw_counters", port->path));
}

static void load_devices(struct model *model)
{
	const struct names *names = reader_list(model->reader, "/sys/class/infiniband");

	model->devices =
		scratch_alloc(model->scratch, (names->count + 1) * sizeof(model->devices[0]));
	for (size_t i = 0; i < names->count; i++) {
		struct device *device = &model->devices[model->device_count++];
		const struct names *ports;

		device->name = names->name[i];
		device->path =
			scratch_print(model->scratch, "/sys/class/infiniband/%s", device->name);
		load_device_parent(model, device);
		load_uverbs(model, device);
		ports = reader_list(model->reader, "%s/ports", device->path);
		device->ports = scratch_alloc(model->scratch,
					      (ports->count + 1) * sizeof(device->ports[0]));
		for (size_t j = 0; j < ports->count; j++)
			load_port(model, device, ports->name[j],
				  &device->ports[device->port_count++]);
	}
}

static void load_netdevs(struct model *model)
{
	const struct names *names = reader_list(model->reader, "/sys/class/net");

	model->netdevs =
		scratch_alloc(model->scratch, (names->count + 1) * sizeof(model->netdevs[0]));
	for (size_t i = 0; i < names->count; i++) {
		struct netdev *netdev = &model->netdevs[model->netdev_count];
		uint64_t mtu;

		netdev->name = names->name[i];
		netdev->mtu = reader_read(model->reader, "/sys/class/net/%s/mtu", netdev->name);
		/* bonding_masters is a file there. */
		if (netdev->mtu->state == FACT_ABSENT)
			continue;
		if (netdev->mtu->state == FACT_KNOWN && parse_number(netdev->mtu->text, &mtu) &&
		    mtu <= UINT32_MAX)
			netdev->mtu_bytes = (unsigned)mtu;
		netdev->operstate =
			reader_read(model->reader, "/sys/class/net/%s/operstate", netdev->name);
		netdev->virtual = strncmp(reader_real(model->reader, "/sys/class/net/%s",
						      netdev->name)
						  ->text,
					  "/sys/devices/virtual/", 21) == 0;
		model->netdev_count++;
	}
}

static void load_address(struct model *model, const char *line, size_t length)
{
	struct address *address = &model->addresses[model->address_count];
	char *copy = scratch_copy(model->scratch, line, length), *save = NULL;
	char *name = strtok_r(copy, " ", &save), *text = strtok_r(NULL, " ", &save), *flag;
	char *slash = text ? strchr(text, '/') : NULL;

	if (!slash)
		return;
	*slash = '\0';
	*address = (struct address){ .netdev = name, .text = text };
	address->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	address->prefix = (unsigned)atoi(slash + 1);
	if (inet_pton(address->family, text, address->raw) != 1 || address->prefix > 128)
		return;
	while ((flag = strtok_r(NULL, " ", &save))) {
		address->up |= strcmp(flag, "up") == 0;
		address->running |= strcmp(flag, "running") == 0;
		address->loopback |= strcmp(flag, "loopback") == 0;
	}
	model->address_count++;
}

static void load_addresses(struct model *model)
{
	const struct fact *fact = reader_read(model->reader, "/.godwit/addresses");
	const char *at = fact->text, *line;
	size_t length, lines = 0;

	model->addresses_fact = fact;
	while (parse_line(&at, &line, &length))
		lines++;
	model->addresses = scratch_alloc(model->scratch, (lines + 1) * sizeof(model->addresses[0]));
	for (at = fact->text; parse_line(&at, &line, &length);)
		load_address(model, line, length);
}

/* A display controller (0x03) of a vendor of GPUs; 0x0302 and 0x0380 are those without a screen. */
static void load_gpus(struct model *model)
{
	const struct names *names = reader_list(model->reader, "/sys/bus/pci/devices");

	model->gpus = scratch_alloc(model->scratch, (names->count + 1) * sizeof(model->gpus[0]));
	for (size_t i = 0; i < names->count; i++) {
		const struct fact *class =
			reader_read(model->reader, "/sys/bus/pci/devices/%s/class", names->name[i]);
		const struct fact *vendor;

		if (strncmp(class->text, "0x03", 4) != 0 && strncmp(class->text, "0x1200", 6) != 0)
			continue;
		vendor = reader_read(model->reader, "/sys/bus/pci/devices/%s/vendor",
				     names->name[i]);
		if (strcmp(vendor->text, VENDOR_NVIDIA) != 0 &&
		    strcmp(vendor->text, VENDOR_AMD) != 0)
			continue;
		model->gpus[model->gpu_count++] =
			reader_real(model->reader, "/sys/bus/pci/devices/%s", names->name[i])->text;
	}
}

static void load_surroundings(struct model *model)
{
	const struct fact *environ = reader_read(model->reader, "/.godwit/environ");
	const struct fact *cgroup = reader_read(model->reader, "/proc/1/cgroup");
	const struct fact *cpu = reader_read(model->reader, "/proc/cpuinfo");

	model->container = reader_read(model->reader, "/.dockerenv")->state == FACT_KNOWN ||
			   reader_read(model->reader, "/run/.containerenv")->state == FACT_KNOWN ||
			   strstr(environ->text, "container=") ||
			   strstr(environ->text, "KUBERNETES_SERVICE_HOST=") ||
			   strstr(cgroup->text, "docker") || strstr(cgroup->text, "kubepods");
	model->guest = strstr(cpu->text, " hypervisor") != NULL;
}

struct model *model_load(struct reader *reader)
{
	struct scratch *scratch = reader_scratch(reader);
	struct model *model = scratch_alloc(scratch, sizeof(*model));
	const struct fact *name = reader_read(reader, "/.godwit/hostname");

	model->reader = reader;
	model->scratch = scratch;
	model->host = name->text[0] && name->text[0] != '(' ? name->text : "this host";
	load_surroundings(model);
	load_netdevs(model);
	load_addresses(model);
	load_devices(model);
	load_gpus(model);
	for (size_t i = 0; i < model->netdev_count; i++) {
		struct netdev *netdev = &model->netdevs[i];

		if (!netdev->rdma)
			continue;
		netdev->counters_fact =
			reader_read(reader, "/.godwit/ethtool/%s/stats", netdev->name);
		counters_add_text(&netdev->counters, reader, netdev->counters_fact);
	}
	return model;
}

static void wait_ms(unsigned ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&left, &left) != 0)
		;
}

void model_sample(struct model *model, unsigned interval_ms)
{
	struct reader *reader = model->reader;
	uint64_t recorded;

	if (reader_live(reader)) {
		if (!model->device_count)
			return;
		wait_ms(interval_ms);
		model->interval_ms = interval_ms;
		reader_put(reader, "/.godwit/interval",
			   scratch_print(model->scratch, "%u", interval_ms));
	} else if (parse_number(reader_read(reader, "/.godwit/interval")->text, &recorded) &&
		   recorded <= UINT32_MAX) {
		model->interval_ms = (unsigned)recorded;
	} else {
		return;
	}
	for (size_t i = 0; i < model->device_count; i++) {
		struct device *device = &model->devices[i];

		for (size_t j = 0; j < device->port_count; j++) {
			struct port *port = &device->ports[j];

			counters_again_directory(
				&port->counters, reader,
				scratch_print(model->scratch, "%s/counters", port->path));
			counters_again_directory(
				&port->counters, reader,
				scratch_print(model->scratch, "%s/hw_counters", port->path));
		}
	}
	for (size_t i = 0; i < model->netdev_count; i++) {
		struct netdev *netdev = &model->netdevs[i];

		if (netdev->rdma)
			counters_again_text(
				&netdev->counters,
				reader_again(reader, "/.godwit/ethtool/%s/stats", netdev->name));
	}
}
