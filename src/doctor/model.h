/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: the host as checks see it: RDMA devices, their ports, GIDs and counters, network interfaces and addresses.
 *
 * model_load() reads it all through a source. A value that could not be read keeps its fact, which says why; numbers are
 * there only where a flag or the fact's state says so.
 */
#ifndef DOCTOR_MODEL_H
#define DOCTOR_MODEL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counter.h"
#include "reader.h"

enum link_layer { LINK_UNKNOWN, LINK_INFINIBAND, LINK_ETHERNET };

enum driver {
	DRIVER_OTHER,
	DRIVER_MLX5,
	DRIVER_MLX4,
	DRIVER_BNXT,
	DRIVER_IRDMA,
	DRIVER_EFA,
	DRIVER_RXE,
	DRIVER_SIW,
	DRIVER_HNS,
	DRIVER_ERDMA
};

enum gid_type { GID_TYPE_UNKNOWN, GID_ROCE_V1, GID_ROCE_V2 };

struct gid {
	unsigned index;
	uint8_t raw[16];
	enum gid_type type;
	/* why the type is unknown */
	enum fact_state type_state;
	int type_error;
	/* interface it belongs to; "" if unknown */
	const char *netdev;
};

struct address {
	const char *netdev;
	/* AF_INET or AF_INET6 */
	int family;
	uint8_t raw[16];
	unsigned prefix;
	bool up;
	bool running;
	bool loopback;
	/* as the kernel writes it, without the prefix */
	const char *text;
};

struct netdev {
	const char *name;
	const struct fact *mtu;
	/* 0: unknown */
	unsigned mtu_bytes;
	const struct fact *operstate;
	/* an RDMA port uses it */
	bool rdma;
	/* no device behind it: bridge, veth, dummy */
	bool virtual;
	/* its counters (ethtool -S) */
	struct counters counters;
	/* the device's counters could not be read for this reason */
	const struct fact *counters_fact;
};

struct device;

struct port {
	const struct device *device;
	unsigned number;
	/* "mlx5_0 port 1", for people */
	const char *name;
	/* its directory */
	const char *path;
	const struct fact *state;
	const struct fact *phys_state;
	const struct fact *rate;
	const struct fact *link_layer_fact;
	enum link_layer link_layer;
	/* state is ACTIVE: NCCL considers the port */
	bool active;
	/* 0: unknown */
	uint64_t rate_bps;
	/* GIDs that are not empty */
	struct gid *gids;
	size_t gid_count;
	/* size of the table */
	unsigned gid_table;
	/* interface of the port; null if unknown */
	struct netdev *netdev;
	/* counters/ and hw_counters/ */
	struct counters counters;
	/* why there are none */
	const struct names *counters_list;
};

struct device {
	const char *name;
	const char *path;
	enum driver driver;
	const char *driver_name;
	/* "0000:01:00.0", or null */
	const char *pci;
	/* where the function is among the bridges, from /sys/devices; null if it is no PCI device */
	const char *pci_path;
	/* a virtual function */
	bool vf;
	/* software: rxe, siw */
	bool soft;
	/* "uverbs0", or null */
	const char *uverbs;
	struct port *ports;
	size_t port_count;
};

struct model {
	struct reader *reader;
	struct scratch *scratch;
	const char *host;
	struct device *devices;
	size_t device_count;
	struct netdev *netdevs;
	size_t netdev_count;
	struct address *addresses;
	size_t address_count;
	/* why there are no addresses */
	const struct fact *addresses_fact;
	/* GPUs, by their PCI path; AMD's and NVIDIA's */
	const char **gpus;
	size_t gpu_count;
	/* time between the samples; 0: one sample */
	unsigned interval_ms;
	/* in a container */
	bool container;
	/* a virtual machine's guest */
	bool guest;
};

/* Reads the host. Counters are read once. Returns the model, whose memory is the source's. */
struct model *model_load(struct reader *reader);

/* Reads the counters once more, after interval_ms have passed (which it waits for on a live host). */
void model_sample(struct model *model, unsigned interval_ms);

struct netdev *model_netdev(const struct model *model, const char *name);

/* Calls for each address of an interface; returns null behind the last. `after` null: the first. */
const struct address *model_address(const struct model *model, const char *netdev,
				    const struct address *after);

/* fe80::/10 or 169.254.0.0/16 */
bool address_link_local(const struct address *address);
bool address_same_subnet(const struct address *a, const struct address *b);

/* Returns whether a GID is an IPv4 address in disguise. */
bool gid_maps_ipv4(const uint8_t raw[16]);
bool gid_is_link_local(const uint8_t raw[16]);
/* "10.0.0.1", "fe80::1". Returns `out`. */
const char *gid_text(const uint8_t raw[16], char out[INET6_ADDRSTRLEN]);

#endif
