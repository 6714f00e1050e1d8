/* SPDX-License-Identifier: BSD-3-Clause */
/* session.c: options, the connection between the two ends, and results. See session.h. */
#include "session.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sdr.h>

#include <godwit/rendezvous.h>

#define PLAN_MAGIC 0x73647264

static const char usage[] =
	"usage: sdr_write_bw [-p PORT] [-d DEVICE] [--json]			waits\n"
	"       sdr_write_bw [OPTION...] HOST				calls and sends\n"
	"  -s SIZE,...     bytes in a message (8388608)\n"
	"  -n COUNT        messages of each size on each queue pair (1000)\n"
	"  -w COUNT        receives posted at once on each, up to 4096 (128)\n"
	"  -q COUNT        queue pairs, up to 64 (1)\n"
	"  -c COUNT        channels: paths that a queue pair's packets are spread over (8)\n"
	"  -k LOG          a chunk has 2^LOG bytes (16)\n"
	"  -m LOG          a packet has at most 2^LOG bytes, 6 to 12 (12)\n"
	"  -t MS           how long a receive may stand still before it is completed with holes (1000)\n"
	"  --poll HOW      nap: sleep between two looks at the bitmap (default); spin: spin on its bytes;\n"
	"                  call: ask the library for it in a loop\n"
	"  --no-check      do not look at the data\n"
	"  -d DEVICE       an RDMA device, an interface, an address; $SDR_FABRIC goes first\n"
	"  -p PORT         TCP port (18515)\n"
	"  --json          one JSON object a size\n";

void die(const char *what)
{
	errx(1, "%s", what);
}

static uint32_t number(const char *text, uint32_t low, uint32_t high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value < low || value > high) {
		fprintf(stderr, "sdr_write_bw: \"%s\" is not a number from %u to %u\n", text, low,
			high);
		exit(2);
	}
	return (uint32_t)value;
}

static void read_sizes(struct plan *plan, char *text)
{
	plan->sizes = 0;
	for (char *at; (at = strsep(&text, ","));) {
		if (plan->sizes == SIZES_MAX)
			die("too many sizes");
		plan->size[plan->sizes++] = number(at, 1, 1u << 30);
	}
}

static uint32_t read_poll(const char *text)
{
	static const char *const names[] = { "nap", "spin", "call" };

	for (uint32_t i = 0; i < 3; i++)
		if (!strcmp(text, names[i]))
			return i;
	fprintf(stderr, "sdr_write_bw: \"%s\" is none of nap, spin, call\n", text);
	exit(2);
}

/* Whether a plan, which may have come over the network, can be carried out. */
static int sound(const struct plan *plan)
{
	return plan->magic == PLAN_MAGIC && plan->qps && plan->qps <= QPS_MAX && plan->window &&
	       plan->window <= WINDOW_MAX && plan->messages && plan->sizes &&
	       plan->sizes <= SIZES_MAX && plan->chunk_log < 32 && plan->mtu <= SDR_MTU_4096 &&
	       plan->poll <= POLL_CALL;
}

static void read_options(struct session *session, int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' },
					       { "no-check", no_argument, NULL, 'x' },
					       { "poll", required_argument, NULL, 'l' },
					       { "help", no_argument, NULL, 'h' },
					       { 0 } };
	struct plan *plan = &session->plan;
	int option;

	while ((option = getopt_long(argc, argv, "s:n:w:q:c:k:m:t:d:p:h", longs, NULL)) != -1) {
		switch (option) {
		case 's':
			read_sizes(plan, optarg);
			break;
		case 'n':
			plan->messages = number(optarg, 1, 1u << 24);
			break;
		case 'w':
			plan->window = number(optarg, 1, WINDOW_MAX);
			break;
		case 'q':
			plan->qps = number(optarg, 1, QPS_MAX);
			break;
		case 'c':
			plan->channels = number(optarg, 1, 64);
			break;
		case 'k':
			plan->chunk_log = number(optarg, 6, 31);
			break;
		case 'm':
			plan->mtu = number(optarg, 6, 12) - 6;
			break;
		case 't':
			plan->patience_ms = number(optarg, 1, 60000);
			break;
		case 'd':
			session->device = optarg;
			break;
		case 'p':
			session->port = (uint16_t)number(optarg, 1, 65535);
			break;
		case 'l':
			plan->poll = read_poll(optarg);
			break;
		case 'j':
			session->json = 1;
			break;
		case 'x':
			plan->check = 0;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (argc - optind > 1 || !sound(plan)) {
		fputs(usage, stderr);
		exit(2);
	}
	session->host = argv[optind];
}

/* Connects to the host, giving it a little time to be started; or, without one, waits for one caller. */
static struct gw_rendezvous *meet(const char *host, uint16_t port)
{
	struct gw_rendezvous_attr attr = { .host = host,
					   .port = port,
					   .service = "sdr_write_bw",
					   .secret_file = getenv("GODWIT_SECRET_FILE"),
					   .retry_ns = UINT64_C(10000000000),
					   /* TCP makes long pauses where many packets are lost */
					   .timeout_ns = UINT64_C(60000000000) };
	struct gw_rendezvous_listener *listener;
	struct gw_rendezvous *peer;
	int rc;

	if (host) {
		rc = gw_rendezvous_connect(&attr, &peer);
	} else {
		rc = gw_rendezvous_listen(&attr, &listener);
		if (rc == 0) {
			rc = gw_rendezvous_accept(listener, UINT64_MAX, &peer);
			gw_rendezvous_listener_close(listener);
		}
	}
	if (rc)
		die(gw_rendezvous_error());
	return peer;
}

void tell(const struct session *session, const void *data, size_t length)
{
	if (gw_rendezvous_send(session->peer, GW_RENDEZVOUS_DESCRIPTION, data, length))
		die(gw_rendezvous_error());
}

void hear(const struct session *session, void *data, size_t length)
{
	struct gw_rendezvous_message message;
	int rc;

	/* A measurement may take longer than the rendezvous waits; an end that dies closes the connection. */
	do {
		rc = gw_rendezvous_recv(session->peer, &message);
	} while (rc == -ETIMEDOUT && gw_rendezvous_peer_version(session->peer)[0]);
	if (rc)
		die(gw_rendezvous_error());
	if (message.length != length)
		die("the other end is no sdr_write_bw of this version");
	memcpy(data, message.data, length);
}

/* The same for 32-bit numbers, from `host` or to it. */
static void exchange(const struct session *session, int send, void *numbers, size_t length)
{
	uint32_t *at = numbers;

	for (size_t i = 0; i < length / sizeof(*at); i++)
		at[i] = htonl(at[i]);
	if (send)
		tell(session, numbers, length);
	else
		hear(session, numbers, length);
	for (size_t i = 0; i < length / sizeof(*at); i++)
		at[i] = ntohl(at[i]);
}

void session_open(struct session *session, int argc, char **argv)
{
	*session = (struct session){ .plan = { .magic = PLAN_MAGIC,
					       .qps = 1,
					       .window = 128,
					       .messages = 1000,
					       .channels = 8,
					       .chunk_log = 16,
					       .mtu = SDR_MTU_4096,
					       .check = 1,
					       .patience_ms = 1000,
					       .sizes = 1,
					       .size = { 8 << 20 } },
				     .port = 18515 };
	read_options(session, argc, argv);
	session->peer = meet(session->host, session->port);
	exchange(session, session->host != NULL, &session->plan, sizeof(session->plan));
	if (!sound(&session->plan))
		die("the caller is no sdr_write_bw of this version");
}

void session_close(struct session *session)
{
	gw_rendezvous_close(session->peer);
}

void session_result(const struct session *session, uint32_t size, struct result *result)
{
	const struct plan *plan = &session->plan;
	double seconds, gbit;

	exchange(session, session->host == NULL, result, sizeof(*result));
	seconds = 1e-6 * result->microseconds;
	gbit = 8e-9 * size * result->messages / seconds;
	if (session->json)
		printf("{\"bytes\": %u, \"queue_pairs\": %u, \"window\": %u, \"messages\": %u, \"seconds\": %.6f, "
		       "\"gbit_per_s\": %.4f, \"missing_chunks\": %u, \"wrong_chunks\": %u, \"checked\": %s}\n",
		       size, plan->qps, plan->window, result->messages, seconds, gbit,
		       result->missing_chunks, result->wrong_chunks,
		       plan->check ? "true" : "false");
	else
		printf("%10u bytes  %8u messages  %9.4f Gbit/s  %6u chunks missing  %s\n", size,
		       result->messages, gbit, result->missing_chunks,
		       !plan->check	      ? "data not checked"
		       : result->wrong_chunks ? "DATA WRONG"
					      : "data right");
	fflush(stdout);
}
