/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_stream: what libfabric carries from one host to another.
 *
 * Usage: fabric_stream --serve --bind ADDRESS
 *	  fabric_stream HOST [--seconds S] [--message SIZE] [--working-set SIZE] [--depth N]
 *	  both: [--port N] [--provider NAME] [--sleep]
 *
 * libfabric's own fi_pingpong keeps one message in flight and turns the direction after each, so
 * that its bandwidth is a latency. Here a connected (FI_EP_MSG) endpoint has a number of sends
 * outstanding, and as many receives posted at the other side, in messages of a working set that
 * goes round. Both ends ask their completion queue again and again, unless told to sleep in it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "ends.h"

#define DEPTH_MAX    1024
#define API	     FI_VERSION(1, 14)
#define EVENT_MS     5000
#define WAIT_MS	     100
#define BATCH	     16
#define TURNS_A_LOOK 100000
#define TAIL_BYTES   8 /* a message of this size is the last */

struct options {
	struct ends ends;
	const char *provider;
	uint64_t message;
	uint64_t depth;
	bool sleep;
};

enum { HELLO_MESSAGE, HELLO_WORKING_SET, HELLO_DEPTH, HELLO_WORDS };
enum { REPORT_BYTES, REPORT_CPU_NS, REPORT_WORDS };

struct end {
	const struct options *o;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *memory;
	void *descriptor;
	uint64_t places;
};

static void check(const char *what, long result)
{
	if (result < 0)
		die_text(what, fi_strerror((int)-result));
}

/* The control connection has o->ends.port, libfabric's own the next. */
static struct fi_info *find(const struct options *o, const char *node, uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;
	char service[8];

	if (!hints)
		die("fi_allocinfo", ENOMEM);
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(o->provider);
	snprintf(service, sizeof(service), "%u", o->ends.port + 1);
	check(o->provider, fi_getinfo(API, node, service, flags, hints, &found));
	fi_freeinfo(hints);
	return found;
}

static void open_fabric(struct end *e)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	check("fi_fabric", fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	check("fi_eq_open", fi_eq_open(e->fabric, &attr, &e->eq, NULL));
}

static void open_endpoint(struct end *e, uint64_t working_set_bytes)
{
	struct fi_cq_attr attr = { .size = 2 * DEPTH_MAX,
				   .format = FI_CQ_FORMAT_MSG,
				   .wait_obj = e->o->sleep ? FI_WAIT_UNSPEC : FI_WAIT_NONE };

	check("fi_domain", fi_domain(e->fabric, e->info, &e->domain, NULL));
	check("fi_cq_open", fi_cq_open(e->domain, &attr, &e->cq, NULL));
	check("fi_endpoint", fi_endpoint(e->domain, e->info, &e->ep, NULL));
	check("fi_ep_bind", fi_ep_bind(e->ep, &e->eq->fid, 0));
	check("fi_ep_bind", fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_enable", fi_enable(e->ep));
	e->memory = working_set(working_set_bytes);
	if (e->info->domain_attr->mr_mode & FI_MR_LOCAL) {
		check("fi_mr_reg", fi_mr_reg(e->domain, e->memory, working_set_bytes,
					     FI_SEND | FI_RECV, 0, 0, 0, &e->mr, NULL));
		e->descriptor = fi_mr_desc(e->mr);
	}
}

static struct fi_info *expect(struct end *e, uint32_t wanted)
{
	struct fi_eq_cm_entry entry;
	struct fi_eq_err_entry failure = { 0 };
	uint32_t event;
	ssize_t n = fi_eq_sread(e->eq, &event, &entry, sizeof(entry), EVENT_MS, 0);

	if (n == -FI_EAVAIL && fi_eq_readerr(e->eq, &failure, 0) > 0)
		check("connection", -failure.err);
	check("connection", n);
	if (event != wanted)
		die_text("connection", "another event than expected");
	return event == FI_CONNREQ ? entry.info : NULL;
}

/* How many requests completed; those that received are counted in bytes. */
static uint64_t reap(struct end *e, uint64_t *bytes, bool *ended)
{
	struct fi_cq_msg_entry done[BATCH];
	ssize_t n = e->o->sleep ? fi_cq_sread(e->cq, done, BATCH, NULL, WAIT_MS)
				: fi_cq_read(e->cq, done, BATCH);

	if (n == -FI_EAGAIN)
		return 0;
	check("completion", n);
	for (ssize_t i = 0; i < n; i++) {
		if (!(done[i].flags & FI_RECV))
			continue;
		*bytes += done[i].len;
		*ended |= done[i].len == TAIL_BYTES;
	}
	return (uint64_t)n;
}

static void serve(const struct options *o)
{
	int control = tcp_accept(tcp_listen(o->ends.bind, o->ends.port, 0));
	struct end e = { .o = o, .info = find(o, o->ends.bind, FI_SOURCE) };
	uint64_t hello[HELLO_WORDS], posted = 0, turns = 0, free_places, bytes = 0, cpu;
	struct fid_pep *listener;
	bool ended = false;

	if (!hear(control, hello, HELLO_WORDS) || hello[HELLO_MESSAGE] <= TAIL_BYTES ||
	    !hello[HELLO_DEPTH] || hello[HELLO_DEPTH] > DEPTH_MAX)
		die_text("the other end", "not a fabric_stream");
	open_fabric(&e);
	check("fi_passive_ep", fi_passive_ep(e.fabric, e.info, &listener, NULL));
	check("fi_pep_bind", fi_pep_bind(listener, &e.eq->fid, 0));
	check("fi_listen", fi_listen(listener));
	tell(control, &bytes, 1);
	fi_freeinfo(e.info);
	e.info = expect(&e, FI_CONNREQ);
	e.places = hello[HELLO_WORKING_SET] / hello[HELLO_MESSAGE];
	open_endpoint(&e, hello[HELLO_WORKING_SET]);
	check("fi_accept", fi_accept(e.ep, NULL, 0));
	expect(&e, FI_CONNECTED);
	free_places = hello[HELLO_DEPTH];
	tell(control, &bytes, 1);

	cpu = cpu_ns();
	while (!ended) {
		while (free_places) {
			ssize_t n =
				fi_recv(e.ep, e.memory + posted % e.places * hello[HELLO_MESSAGE],
					hello[HELLO_MESSAGE], e.descriptor, 0, NULL);

			if (n == -FI_EAGAIN)
				break;
			check("fi_recv", n);
			posted++;
			free_places--;
		}
		free_places += reap(&e, &bytes, &ended);
		if (!(++turns % TURNS_A_LOOK))
			check_still_there(control);
	}
	tell(control,
	     (uint64_t[REPORT_WORDS]){
		     [REPORT_BYTES] = bytes - TAIL_BYTES, [REPORT_CPU_NS] = cpu_ns() - cpu },
	     REPORT_WORDS);
	/* The endpoint stays until the client has gone: closing it first would be an error there. */
	hear(control, hello, 1);
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	struct end e = { .o = o, .places = o->ends.working_set / o->message };
	uint64_t hello[HELLO_WORDS] = { [HELLO_MESSAGE] = o->message,
					[HELLO_WORKING_SET] = o->ends.working_set,
					[HELLO_DEPTH] = o->depth };
	uint64_t report[REPORT_WORDS], begin, cpu, sent = 0, done = 0, unused = 0;
	bool ended = false, tail = false;

	tell(control, hello, HELLO_WORDS);
	if (!hear(control, report, 1))
		die_text(o->ends.host, "the server went away");
	e.info = find(o, o->ends.host, 0);
	open_fabric(&e);
	open_endpoint(&e, o->ends.working_set);
	check("fi_connect", fi_connect(e.ep, e.info->dest_addr, NULL, 0));
	expect(&e, FI_CONNECTED);
	if (!hear(control, report, 1))
		die_text(o->ends.host, "the server went away");

	begin = now_ns();
	cpu = cpu_ns();
	while (!tail || done < sent) {
		while (!tail && sent - done < o->depth) {
			bool last = now_ns() - begin >= o->ends.seconds_ns;
			ssize_t n = fi_send(e.ep, e.memory + sent % e.places * o->message,
					    last ? TAIL_BYTES : o->message, e.descriptor, 0, NULL);

			if (n == -FI_EAGAIN)
				break;
			check("fi_send", n);
			sent++;
			tail = last;
		}
		done += reap(&e, &unused, &ended);
	}
	cpu = cpu_ns() - cpu;
	if (!hear(control, report, REPORT_WORDS))
		die_text(o->ends.host, "the server went away");
	printf("{\"peer\": \"fabric_stream\", \"provider\": \"%s\", \"message_bytes\": %lu, "
	       "\"working_set_bytes\": %lu, \"depth\": %lu, \"wait\": \"%s\", \"bytes\": %lu",
	       e.info->fabric_attr->prov_name, o->message, o->ends.working_set, o->depth,
	       o->sleep ? "sleep" : "poll", report[REPORT_BYTES]);
	print_seconds("seconds", now_ns() - begin);
	print_seconds("sender_cpu_s", cpu);
	print_seconds("receiver_cpu_s", report[REPORT_CPU_NS]);
	printf("}\n");
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		{ "provider", required_argument, NULL, 'P' },
		ENDS_STREAM_OPTIONS,
		{ "message", required_argument, NULL, 'm' },
		{ "depth", required_argument, NULL, 'd' },
		{ "sleep", no_argument, NULL, 'S' },
		{ 0 },
	};
	struct options o = {
		.provider = "tcp", .ends = ENDS_DEFAULTS, .message = 256 << 10, .depth = 4
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'P':
			o.provider = optarg;
			break;
		case 'm':
			o.message = parse_size("--message", optarg);
			break;
		case 'd':
			o.depth = parse_size("--depth", optarg);
			break;
		case 'S':
			o.sleep = true;
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv) || (o.ends.server && !o.ends.bind))
		die_text("usage", "fabric_stream --serve --bind ADDRESS | HOST [options]");
	if (o.message <= TAIL_BYTES || o.ends.working_set < o.message || !o.depth ||
	    o.depth > DEPTH_MAX)
		die_text("usage", "message above 8, working set no smaller, depth 1 to 1024");
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	return 0;
}
