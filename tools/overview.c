/* SPDX-License-Identifier: BSD-3-Clause */
/* `godwit` alone: what this host can do, and three commands to try. Facts only; `godwit doctor` judges them. */
#include "overview.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <godwit/godwit.h>

#include "doctor/model.h"
#include "doctor/parse.h"
#include "text.h"

/* Interfaces and ports that are listed; a host may have dozens. */
#define LINES_MAX 8u

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static bool socket_takes(int option, int value)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool takes = fd >= 0 && setsockopt(fd, IPPROTO_UDP, option, &value, sizeof(value)) == 0;

	if (fd >= 0)
		close(fd);
	return takes;
}

static void print_nics(const struct model *model, FILE *out)
{
	unsigned count = 0;

	if (!model->device_count)
		fprintf(out,
			"  RDMA NICs      none; godwit doctor says what to check if there should be one\n");
	for (size_t i = 0; i < model->device_count; i++) {
		const struct device *device = &model->devices[i];

		for (size_t j = 0; j < device->port_count && count < LINES_MAX; j++, count++) {
			const struct port *port = &device->ports[j];

			fprintf(out, "  %-14s %s, %s, %s%s%s\n", port->name,
				port->active ? "active" : "not active",
				port->rate_bps ? port->rate->text : "rate unknown",
				port->link_layer == LINK_ETHERNET     ? "RoCE"
				: port->link_layer == LINK_INFINIBAND ? "InfiniBand"
								      : "link unknown",
				port->netdev ? ", " : "", port->netdev ? port->netdev->name : "");
		}
	}
}

static void print_addresses(const struct model *model, FILE *out)
{
	unsigned count = 0;

	for (size_t i = 0; i < model->address_count && count < LINES_MAX; i++) {
		const struct address *address = &model->addresses[i];
		const struct netdev *netdev = model_netdev(model, address->netdev);

		if (address->loopback || address_link_local(address) || !address->running)
			continue;
		fprintf(out, "  %-14s %s/%u, MTU %u\n", address->netdev, address->text,
			address->prefix, netdev ? netdev->mtu_bytes : 0);
		count++;
	}
	if (!count)
		fprintf(out, "  no interface with an address that other hosts reach\n");
}

static const char *buffer_limit(struct reader *reader, const char *name, char text[TEXT_SIZE])
{
	const struct fact *fact = reader_read(reader, "/proc/sys/net/core/%s", name);
	uint64_t bytes;

	return parse_number(fact->text, &bytes) ? text_bytes(bytes, text) : "unknown";
}

static void print_limits(struct reader *reader, FILE *out)
{
	const struct fact *limits = reader_read(reader, "/.godwit/limits");
	char receive[TEXT_SIZE], send[TEXT_SIZE], locked[32] = "unknown", files[32] = "unknown",
						  size[TEXT_SIZE];
	uint64_t bytes;

	parse_value(limits->text, "memlock", locked, sizeof(locked));
	parse_value(limits->text, "nofile", files, sizeof(files));
	fprintf(out, "  socket buffers %s to receive, %s to send\n",
		buffer_limit(reader, "rmem_max", receive), buffer_limit(reader, "wmem_max", send));
	fprintf(out, "  locked memory  %s\n",
		parse_number(locked, &bytes) ? text_bytes(bytes, size) : locked);
	fprintf(out, "  open files     %s\n", files);
}

int overview_print(FILE *out)
{
	const struct reader_attr attr = { 0 };
	struct utsname system = { 0 };
	struct reader *reader;
	struct model *model;
	int rc = reader_open(&attr, &reader);

	if (rc)
		return rc;
	model = model_load(reader);
	uname(&system);
	fprintf(out, "godwit %s on %s: moves data over unreliable RDMA\n\nfabrics\n", gw_version(),
		model->host);
	fprintf(out, "  UDP sockets    ready for every user (RoCEv2 in user space)\n");
	print_nics(model, out);
	fprintf(out, "\nkernel %s\n", system.release);
	fprintf(out, "  batches        to send %s, to receive %s (UDP_SEGMENT, UDP_GRO)\n",
		socket_takes(UDP_SEGMENT, 1400) ? "yes" : "no",
		socket_takes(UDP_GRO, 1) ? "yes" : "no");
	fprintf(out, "\nnetwork\n");
	print_addresses(model, out);
	fprintf(out, "\nlimits\n");
	print_limits(reader, out);
	fprintf(out,
		"\ntry\n"
		"  godwit doctor            what is wrong with RDMA here, and what to do\n"
		"  godwit perf              wait for a measurement; elsewhere: godwit perf %s\n"
		"  godwit help              all commands\n",
		model->host);
	reader_close(reader);
	return 0;
}
