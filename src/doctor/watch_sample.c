/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads ports and their counters, and no more than that: it is done every second. */
#include <stdlib.h>
#include <string.h>

#include "parse.h"
#include "watch.h"

#define MBIT UINT64_C(1000000)

/* Interfaces that entries of the GID table name, as many as are looked at. */
#define GIDS_TRIED 4u

static const char *netdev_of(struct reader *reader, const char *device, const char *port)
{
	const struct names *names;

	for (unsigned i = 0; i < GIDS_TRIED; i++) {
		const struct fact *fact = reader_read(reader, "%s/gid_attrs/ndevs/%u", port, i);

		if (fact->state == FACT_KNOWN && fact->text[0])
			return fact->text;
	}
	names = reader_list(reader, "%s/device/net", device);
	return names->count == 1 ? names->name[0] : "";
}

/* "4: ACTIVE" as "active". */
static const char *state_word(struct reader *reader, const struct fact *fact)
{
	const char *colon = strchr(fact->text, ':');
	char *word;

	if (fact->state != FACT_KNOWN || !colon)
		return "unknown";
	colon += 1 + (colon[1] == ' ');
	word = scratch_copy(reader_scratch(reader), colon, strlen(colon));
	for (char *c = word; *c; c++)
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
	return word;
}

static struct watch_port *add_port(struct watch_sample *sample)
{
	struct watch_port *more;
	size_t count = sample->port_count;

	if ((count & (count - 1)) == 0) {
		more = scratch_alloc(reader_scratch(sample->reader),
				     (count ? 2 * count : 1) * sizeof(*more));
		if (count)
			memcpy(more, sample->ports, count * sizeof(*more));
		sample->ports = more;
	}
	return &sample->ports[sample->port_count++];
}

static void read_rdma_port(struct watch_sample *sample, const char *device, const char *number)
{
	struct reader *reader = sample->reader;
	struct scratch *scratch = reader_scratch(reader);
	const char *base = scratch_print(scratch, "/sys/class/infiniband/%s", device);
	const char *path = scratch_print(scratch, "%s/ports/%s", base, number);
	const struct fact *state = reader_read(reader, "%s/state", path);
	const struct fact *rate = reader_read(reader, "%s/rate", path);
	struct watch_port *port = add_port(sample);
	unsigned value;

	*port = (struct watch_port){ .kind = WATCH_RDMA };
	port->name = scratch_print(scratch, "%s/%s", device, number);
	port->state = state_word(reader, state);
	port->up = parse_leading(state->text, &value) && value == 4;
	if (rate->state != FACT_KNOWN || !parse_port_rate(rate->text, &port->rate_bps))
		port->rate_bps = 0;
	port->netdev = netdev_of(reader, base, path);
	counters_add_directory(&port->counters, reader,
			       scratch_print(scratch, "%s/counters", path));
	counters_add_directory(&port->counters, reader,
			       scratch_print(scratch, "%s/hw_counters", path));
	if (port->netdev[0])
		counters_add_text(&port->ethtool, reader,
				  reader_read(reader, "/.godwit/ethtool/%s/stats", port->netdev));
}

static void read_queues(struct watch_sample *sample, const char *device)
{
	struct reader *reader = sample->reader;
	const struct fact *fact = reader_read(reader, "/.godwit/netlink/rdma/qp/%s", device);
	const char *at = fact->text, *line;
	size_t length;

	if (!fact_known(fact, sample->queues_unknown ? NULL : &sample->queues_unknown))
		return;
	while (parse_line(&at, &line, &length)) {
		char copy[128];
		const char *word;
		uint64_t pid;
		size_t i;

		if (length >= sizeof(copy))
			continue;
		memcpy(copy, line, length);
		copy[length] = '\0';
		word = strstr(copy, " pid ");
		if (strncmp(copy, "qp ", 3) != 0 || !word || !parse_number(word + 5, &pid))
			continue;
		for (i = 0; i < sample->queue_count; i++) {
			if (sample->queues[i].pid == pid &&
			    strcmp(sample->queues[i].device, device) == 0)
				break;
		}
		if (i == sample->queue_count) {
			struct watch_queues *more =
				scratch_alloc(reader_scratch(reader), (i + 1) * sizeof(*more));

			if (i)
				memcpy(more, sample->queues, i * sizeof(*more));
			sample->queues = more;
			more[i] = (struct watch_queues){ .device = device, .pid = (unsigned)pid };
			more[i].process =
				pid ? reader_read(reader, "/proc/%u/comm", (unsigned)pid)->text
				    : "kernel";
			sample->queue_count++;
		}
		sample->queues[i].count++;
	}
}

static void read_rdma(struct watch_sample *sample)
{
	const struct names *devices = reader_list(sample->reader, "/sys/class/infiniband");

	for (size_t i = 0; i < devices->count; i++) {
		const struct names *ports = reader_list(
			sample->reader, "/sys/class/infiniband/%s/ports", devices->name[i]);

		for (size_t j = 0; j < ports->count; j++)
			read_rdma_port(sample, devices->name[i], ports->name[j]);
		read_queues(sample, devices->name[i]);
	}
}

static void read_ethernet_port(struct watch_sample *sample, const char *name)
{
	struct reader *reader = sample->reader;
	const struct fact *state = reader_read(reader, "/sys/class/net/%s/operstate", name);
	const struct fact *speed = reader_read(reader, "/sys/class/net/%s/speed", name);
	struct watch_port *port = add_port(sample);
	uint64_t mbit;

	*port = (struct watch_port){ .name = name, .kind = WATCH_ETHERNET, .netdev = name };
	port->state = state->state == FACT_KNOWN && state->text[0] ? state->text : "unknown";
	/* A driver without a notion of carrier says "unknown" and works. */
	port->up = strcmp(port->state, "up") == 0 || strcmp(port->state, "unknown") == 0;
	if (speed->state == FACT_KNOWN && parse_number(speed->text, &mbit) && mbit < UINT32_MAX)
		port->rate_bps = mbit * MBIT;
	counters_add_directory(
		&port->counters, reader,
		scratch_print(reader_scratch(reader), "/sys/class/net/%s/statistics", name));
	counters_add_text(&port->ethtool, reader,
			  reader_read(reader, "/.godwit/ethtool/%s/stats", name));
}

static void read_ethernet(struct watch_sample *sample, bool everything)
{
	const struct names *names = reader_list(sample->reader, "/sys/class/net");

	for (size_t i = 0; i < names->count; i++) {
		const char *real =
			reader_real(sample->reader, "/sys/class/net/%s", names->name[i])->text;
		bool virtual = strncmp(real, "/sys/devices/virtual/", 21) == 0;

		/* bonding_masters is a file there. */
		if (reader_read(sample->reader, "/sys/class/net/%s/mtu", names->name[i])->state ==
		    FACT_ABSENT)
			continue;
		if (!virtual || everything)
			read_ethernet_port(sample, names->name[i]);
	}
}

void watch_read(struct reader *reader, int64_t time_ns, bool everything, struct watch_sample *out)
{
	const struct fact *name = reader_read(reader, "/.godwit/hostname");

	*out = (struct watch_sample){ .reader = reader, .time_ns = time_ns };
	out->host = name->state == FACT_KNOWN && name->text[0] ? name->text : "this host";
	read_rdma(out);
	read_ethernet(out, everything);
}

static const char *copy(struct watch_sample *sample, const char *text)
{
	return scratch_copy(reader_scratch(sample->reader), text, strlen(text));
}

void watch_carry(const struct watch_sample *before, struct watch_sample *now)
{
	size_t count = now->port_count;

	for (size_t i = 0; i < before->port_count; i++) {
		const struct watch_port *old = &before->ports[i];
		struct watch_port *port;
		size_t j = 0;

		while (j < count && strcmp(now->ports[j].name, old->name) != 0)
			j++;
		if (j < count)
			continue;
		port = add_port(now);
		*port = (struct watch_port){ .kind = old->kind, .rate_bps = old->rate_bps };
		port->name = copy(now, old->name);
		port->netdev = copy(now, old->netdev);
		port->state = "gone";
		port->gone = true;
	}
}

void watch_sample_free(struct watch_sample *sample)
{
	reader_close(sample->reader);
	*sample = (struct watch_sample){ 0 };
}
