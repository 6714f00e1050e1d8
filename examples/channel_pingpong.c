/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel_pingpong: two programs meet and send messages back and forth over a channel. The first program to read: it uses
 * <godwit/rendezvous.h> to find the other end and <godwit/channel.h> to move data, and nothing else.
 *
 *	cc channel_pingpong.c $(pkg-config --cflags --libs godwit) -o channel_pingpong
 *	channel_pingpong			on one host: waits for one other
 *	channel_pingpong [OPTION...] HOST	on the other: says how many messages of which size, and begins
 *
 * Each message is filled with a pattern that tells it from every other, and looked at byte by byte where it arrives.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* getopt_long() */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/channel.h>
#include <godwit/rendezvous.h>

#define NS_PER_MS     UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

/* The kind of message at the rendezvous that says: everything was received. */
#define DONE GW_RENDEZVOUS_KIND_MIN

/* What the two ends exchange when they meet. Numbers are big-endian. */
struct hello {
	/* bytes in a message, and messages each way; the connecting end decides */
	uint32_t size;
	uint32_t count;
	/* how to reach the sender of this */
	struct gw_channel_info channel;
};

struct pingpong {
	uint32_t size;
	uint32_t count;
	struct gw_rendezvous *rendezvous;
	struct gw_context *ctx;
	struct gw_channel *channel;
	/* `size` bytes to send from and `size` bytes to receive into, in one registered region */
	uint8_t *memory;
	struct gw_mr *mr;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "channel_pingpong: %s: %s\n", what, why);
	exit(1);
}

static void check(int rc, const char *what)
{
	if (rc < 0)
		die(what, strerror(-rc));
}

/* ---- 1: meet --------------------------------------------------------------------------------------------------- */

static void meet(struct pingpong *p, struct gw_rendezvous_attr *attr)
{
	struct gw_rendezvous_listener *listener;
	int rc;

	attr->service = "channel_pingpong";
	if (attr->host) {
		rc = gw_rendezvous_connect(attr, &p->rendezvous);
	} else {
		rc = gw_rendezvous_listen(attr, &listener);
		if (rc == 0) {
			rc = gw_rendezvous_accept(listener, UINT64_MAX, &p->rendezvous);
			gw_rendezvous_listener_close(listener);
		}
	}
	if (rc)
		die("no other end", gw_rendezvous_error());
}

/* ---- 2: open a channel on the address that the two met by, and connect it ---------------------------------------- */

static void connect_channel(struct pingpong *p, int decides)
{
	struct hello mine = { htonl(p->size), htonl(p->count), { { 0 } } }, theirs;
	struct gw_context_attr context = { 0 };
	char fabric[128];
	int rc;

	snprintf(fabric, sizeof(fabric), "roce:%s", gw_rendezvous_local(p->rendezvous));
	context.fabric = fabric;
	if (gw_context_open(&context, &p->ctx))
		die("cannot open the fabric", gw_context_error(NULL));
	check(gw_channel_create(p->ctx, NULL, &p->channel), "cannot make a channel");
	check(gw_channel_info(p->channel, &mine.channel), "cannot describe the channel");

	rc = gw_rendezvous_exchange(p->rendezvous, &mine, sizeof(mine), &theirs, sizeof(theirs));
	if (rc < 0)
		die("no description of the other end", gw_rendezvous_error());
	if (rc != (int)sizeof(theirs))
		die("the other end", "it is another version of this program");
	if (!decides) {
		p->size = ntohl(theirs.size);
		p->count = ntohl(theirs.count);
	}
	check(gw_channel_connect(p->channel, &theirs.channel), "cannot connect the channel");
}

/* ---- 3: memory that messages are sent from and land in ----------------------------------------------------------- */

static void register_memory(struct pingpong *p)
{
	p->memory = malloc(2 * (size_t)p->size);
	if (!p->memory)
		die("memory", "there is not enough");
	check(gw_mr_register(p->ctx, p->memory, 2 * (size_t)p->size, &p->mr),
	      "cannot register memory");
}

static uint8_t *send_buffer(const struct pingpong *p)
{
	return p->memory;
}

static uint8_t *recv_buffer(const struct pingpong *p)
{
	return p->memory + p->size;
}

/* ---- 4: messages ------------------------------------------------------------------------------------------------- */

static uint8_t pattern(uint32_t message, uint32_t i)
{
	return (uint8_t)((message * 131 + i) ^ i >> 8);
}

static void fill(const struct pingpong *p, uint32_t message)
{
	for (uint32_t i = 0; i < p->size; i++)
		send_buffer(p)[i] = pattern(message, i);
}

static void verify(const struct pingpong *p, uint32_t message)
{
	for (uint32_t i = 0; i < p->size; i++) {
		if (recv_buffer(p)[i] != pattern(message, i))
			die("DATA WRONG", "a message is not what was sent");
	}
}

static struct gw_op *post_recv(const struct pingpong *p)
{
	struct gw_op_attr attr = { .addr = recv_buffer(p), .length = p->size, .mr = p->mr };
	struct gw_op *op;

	check(gw_channel_recv(p->channel, &attr, &op), "cannot post a receive");
	return op;
}

static struct gw_op *post_send(const struct pingpong *p)
{
	struct gw_op_attr attr = { .addr = send_buffer(p), .length = p->size, .mr = p->mr };
	struct gw_op *op;

	check(gw_channel_send(p->channel, &attr, &op), "cannot post a send");
	return op;
}

/* A channel gives up on a peer that is silent for 10 s, so this always ends. */
static void wait_for(const struct pingpong *p, struct gw_op *op)
{
	struct gw_op_result result;
	char text[256];

	check(gw_op_wait(op, UINT64_MAX), "waiting");
	gw_op_test(op, &result);
	if (result.status) {
		gw_channel_explain(p->channel, text, sizeof(text));
		die(strerror(-result.status), text);
	}
	gw_op_close(op);
}

/* A send ends when the other end has received it, so the receive for the answer is posted before that is waited for. */
static void ping(const struct pingpong *p)
{
	struct gw_op *send, *recv;

	for (uint32_t i = 0; i < p->count; i++) {
		fill(p, 2 * i);
		recv = post_recv(p);
		send = post_send(p);
		wait_for(p, send);
		wait_for(p, recv);
		verify(p, 2 * i + 1);
	}
}

static void pong(const struct pingpong *p)
{
	struct gw_op *send;

	for (uint32_t i = 0; i < p->count; i++) {
		wait_for(p, post_recv(p));
		verify(p, 2 * i);
		fill(p, 2 * i + 1);
		send = post_send(p);
		wait_for(p, send);
	}
}

/* ---- 5: part ----------------------------------------------------------------------------------------------------- */

/*
 * The end that received last must not leave before the other knows: an acknowledgement may be lost, and is repeated only
 * while somebody makes progress. So it goes on until the other end says that it is done.
 */
static void leave_first(const struct pingpong *p)
{
	if (gw_rendezvous_send(p->rendezvous, DONE, NULL, 0))
		die("at the end", gw_rendezvous_error());
}

static void leave_last(const struct pingpong *p)
{
	struct gw_rendezvous_message message;

	while (gw_rendezvous_try_recv(p->rendezvous, &message) == -EAGAIN)
		gw_wait(p->ctx, NS_PER_MS);
}

static const char usage[] =
	"usage: channel_pingpong [OPTION...] [HOST]\n"
	"Without HOST, waits for one other; with HOST, where another waits, sends messages there and back.\n"
	"  -s BYTES           in a message (default 65536)\n"
	"  -n COUNT           messages each way (default 1000)\n"
	"  -p PORT            TCP port where the two meet (default 18515)\n"
	"  --secret-file FILE meet only an end that holds the same secret (`godwit secret FILE` makes one);\n"
	"                     default: GODWIT_SECRET_FILE\n"
	"  --help             this text\n";

static uint32_t number(const char *text, unsigned long most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value < 1 || value > most) {
		fprintf(stderr, "channel_pingpong: \"%s\" is not a number from 1 to %lu\n", text,
			most);
		exit(2);
	}
	return (uint32_t)value;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' },
					       { "secret-file", required_argument, NULL, 'f' },
					       { NULL, 0, NULL, 0 } };
	struct gw_rendezvous_attr attr = { .port = 18515,
					   .secret_file = getenv("GODWIT_SECRET_FILE") };
	struct pingpong p = { .size = 65536, .count = 1000 };
	uint64_t began;
	double seconds;
	int option;

	while ((option = getopt_long(argc, argv, "s:n:p:h", longs, NULL)) != -1) {
		switch (option) {
		case 's':
			p.size = number(optarg, 1ul << 30);
			break;
		case 'n':
			p.count = number(optarg, 1ul << 24);
			break;
		case 'p':
			attr.port = (uint16_t)number(optarg, 65535);
			break;
		case 'f':
			attr.secret_file = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (argc - optind > 1) {
		fputs(usage, stderr);
		return 2;
	}
	attr.host = argv[optind];

	meet(&p, &attr);
	connect_channel(&p, attr.host != NULL);
	register_memory(&p);
	began = gw_now_ns(p.ctx);
	if (attr.host) {
		ping(&p);
		leave_last(&p);
	} else {
		pong(&p);
		leave_first(&p);
	}
	seconds = (double)(gw_now_ns(p.ctx) - began) / (double)NS_PER_SECOND;
	printf("%u round trips of %u bytes with %s, every byte verified: %.1f us each, %.3f Gbit/s each way\n",
	       p.count, p.size, gw_rendezvous_remote(p.rendezvous), 1e6 * seconds / p.count,
	       8e-9 * p.size * p.count / seconds);
	gw_context_close(p.ctx);
	gw_rendezvous_close(p.rendezvous);
	free(p.memory);
	return 0;
}
