/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit_stream: how long messages take under a scheme of ours on any fabric, one at a time.
 *
 * Usage: godwit_stream --serve --fabric NAME
 *	  godwit_stream HOST --fabric NAME [--scheme sr|bounded] [--congestion NAME] [--rate BITS] [--grace S]
 *			[--messages N] [--seconds S] [--message SIZE]
 *	  both: [--port N]
 *
 * What `godwit perf` measures, for fabrics that the command does not open: a soft-RoCE device above all. The public
 * headers are all it uses. The server keeps receives posted; how many bytes landed is what it says at the end, for a
 * sender knows packets only. Both sleep until there is something to do.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/bounded.h>
#include <godwit/flow.h>
#include <godwit/scheme.h>

#include "ends.h"
#include "times.h"

#define RECEIVES   16 /* posted at once: memory is not free again before its fence has passed */
#define SLOTS	   32
#define WAIT_NS	   20000000
#define INFO_WORDS (sizeof(struct gw_qp_info) / sizeof(uint64_t))
#define PPM	   1000000

struct options {
	struct ends ends;
	const char *fabric;
	const char *scheme;
	const char *congestion;
	uint64_t rate_bps; /* no faster than this; 0: no cap */
	uint64_t grace_ns; /* of a bounded message; 0: the library's choice */
	uint64_t message;
};

enum {
	HELLO_MESSAGE,
	HELLO_BOUNDED,
	HELLO_GRACE_NS,
	HELLO_INFO,
	HELLO_WORDS = HELLO_INFO + INFO_WORDS
};
enum { REPORT_BYTES, REPORT_ALL_BYTES, REPORT_HOLED, REPORT_WORDS };

struct end;

struct receive {
	struct end *end;
	struct gw_recv *recv;
	uint8_t *memory;
	struct gw_bounded_outcome outcome;
};

struct end {
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct gw_mr *mr;
	const struct gw_scheme *scheme;
	uint64_t message;
	int gone;
	/* of the sender */
	struct gw_transfer_result result;
	bool sent;
	/* of the receiver */
	struct receive receives[RECEIVES];
	struct gw_pace pace;
	uint64_t grace_ns;
	uint64_t report[REPORT_WORDS];
};

static void must(const struct end *end, const char *what, int error)
{
	const char *why = error && end->ctx ? gw_context_error(end->ctx) : "";

	if (error)
		die_text(what, *why ? why : strerror(-error));
}

static void gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	struct end *end = arg;

	(void)qp, (void)now;
	end->gone = status;
}

static const struct gw_qp_handler handler = { .gone = gone };

static void open_end(struct end *end, const char *fabric, uint8_t *memory, uint64_t bytes)
{
	struct gw_context_attr context = { .fabric = fabric, .max_qps = 1 };
	struct gw_qp_attr attr = { .slots = SLOTS, .handler = &handler, .arg = end };

	must(end, fabric, gw_context_open(&context, &end->ctx));
	must(end, "queue pair", gw_qp_create(end->ctx, &attr, &end->qp));
	must(end, "memory", gw_mr_register(end->ctx, memory, bytes, &end->mr));
}

static void describe(const struct end *end, uint64_t *words)
{
	struct gw_qp_info info;

	must(end, "queue pair", gw_qp_info(end->qp, &info));
	memcpy(words, info.bytes, sizeof(info.bytes));
}

static void connect_to(struct end *end, const uint64_t *words)
{
	struct gw_qp_info info;

	memcpy(info.bytes, words, sizeof(info.bytes));
	must(end, "connecting", gw_qp_connect(end->qp, &info));
}

static void post(struct receive *receive);

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct receive *receive = arg;
	struct end *end = receive->end;
	uint64_t bytes = end->scheme == &gw_bounded ? receive->outcome.bytes : result->length;

	/* One whose time was up before it was announced is lost as a whole. */
	bool lost = end->scheme == &gw_bounded && result->status == -ETIMEDOUT && !end->gone;

	(void)now;
	gw_recv_close(receive->recv);
	if (end->gone || result->status == -ECONNRESET)
		return;
	if (!lost)
		must(end, "receiving", result->status);
	end->report[REPORT_BYTES] += lost ? 0 : bytes;
	end->report[REPORT_ALL_BYTES] += end->message;
	end->report[REPORT_HOLED] += lost || bytes < end->message;
	post(receive);
}

static void post(struct receive *receive)
{
	struct end *end = receive->end;
	struct gw_bounded_options options = { .grace_ns = end->grace_ns,
					      .flags = GW_BOUNDED_KEEP,
					      .ceiling_ppm = PPM,
					      .pace = &end->pace,
					      .outcome = &receive->outcome };
	struct gw_transfer_attr attr = { .addr = receive->memory,
					 .length = end->message,
					 .mr = end->mr,
					 .done = received,
					 .arg = receive };

	if (end->scheme == &gw_bounded)
		attr.options = &options;
	must(end, "receive", gw_transfer_recv(end->qp, end->scheme, &attr, &receive->recv));
}

static void serve(const struct options *o)
{
	int control = tcp_accept(tcp_listen(o->ends.bind, o->ends.port, 0));
	uint64_t hello[HELLO_WORDS], word;
	struct end end = { 0 };
	uint8_t *memory;

	if (!hear(control, hello, HELLO_WORDS))
		die_text("the other end", "not a godwit_stream");
	end.message = hello[HELLO_MESSAGE];
	end.scheme = hello[HELLO_BOUNDED] ? &gw_bounded : &gw_selective_repeat;
	end.grace_ns = hello[HELLO_GRACE_NS];
	memory = working_set(RECEIVES * end.message);
	open_end(&end, o->fabric, memory, RECEIVES * end.message);
	connect_to(&end, hello + HELLO_INFO);
	for (uint64_t i = 0; i < RECEIVES; i++) {
		end.receives[i].end = &end;
		end.receives[i].memory = memory + i * end.message;
		post(&end.receives[i]);
	}
	describe(&end, hello + HELLO_INFO);
	tell(control, hello, HELLO_WORDS);
	/* The client's next word is that it is through. */
	while (recv(control, &word, sizeof(word), MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		gw_wait(end.ctx, WAIT_NS);
	tell(control, end.report, REPORT_WORDS);
	gw_context_close(end.ctx);
}

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct end *end = arg;

	(void)now;
	end->result = *result;
	end->sent = true;
}

static void send_message(struct end *end, uint8_t *memory)
{
	struct gw_transfer_attr attr = {
		.addr = memory, .length = end->message, .mr = end->mr, .done = sent, .arg = end
	};
	struct gw_send *send;

	end->sent = false;
	must(end, "send", gw_transfer_send(end->qp, end->scheme, &attr, &send));
	while (!end->sent)
		gw_wait(end->ctx, WAIT_NS);
	gw_send_close(send);
	if (end->scheme != &gw_bounded || end->result.status != -ECANCELED)
		must(end, "sending", end->result.status);
}

static void print_result(const struct options *o, const struct end *end, uint64_t wall_ns,
			 const uint64_t *report, struct times *times)
{
	struct gw_estimate estimate = { 0 };

	gw_qp_estimate(end->qp, &estimate);
	printf("{\"peer\": \"godwit_stream\", \"fabric\": \"%s\", \"scheme\": \"%s\", "
	       "\"congestion\": \"%s\", \"rate_bps\": %lu, \"payload\": %u, \"bytes\": %lu, \"holed\": %lu, "
	       "\"retransmits\": %lu, \"rtt_us\": %.1f, \"delivered\": %.9f",
	       o->fabric, o->scheme, o->congestion, o->rate_bps, estimate.payload_send,
	       report[REPORT_BYTES], report[REPORT_HOLED], estimate.retransmitted,
	       (double)estimate.rtt_ns / 1e3,
	       (double)report[REPORT_BYTES] / (double)report[REPORT_ALL_BYTES]);
	print_seconds("seconds", wall_ns);
	times_print(times);
	printf("}\n");
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	struct end end = { .message = o->message };
	struct gw_flow_attr flow_attr = { .congestion = o->congestion, .rate_bps = o->rate_bps };
	uint64_t hello[HELLO_WORDS], report[REPORT_WORDS], word = 0, begin;
	uint8_t *memory = working_set(o->message);
	struct gw_flow *flow = NULL;
	struct times times;

	hello[HELLO_MESSAGE] = o->message;
	hello[HELLO_BOUNDED] = !strcmp(o->scheme, "bounded");
	hello[HELLO_GRACE_NS] = o->grace_ns;
	end.scheme = hello[HELLO_BOUNDED] ? &gw_bounded : &gw_selective_repeat;
	open_end(&end, o->fabric, memory, o->message);
	describe(&end, hello + HELLO_INFO);
	tell(control, hello, HELLO_WORDS);
	if (!hear(control, hello, HELLO_WORDS))
		die_text(o->ends.host, "the server went away");
	connect_to(&end, hello + HELLO_INFO);
	if (strcmp(o->congestion, "none") != 0 || o->rate_bps)
		must(&end, o->congestion, gw_flow_open(end.qp, &flow_attr, &flow));

	begin = now_ns();
	times_open(&times, o->ends.messages, o->ends.seconds_ns);
	while (times_next(&times)) {
		send_message(&end, memory);
		times_end(&times);
	}
	begin = now_ns() - begin;
	tell(control, &word, 1);
	if (!hear(control, report, REPORT_WORDS) || !report[REPORT_ALL_BYTES])
		die_text(o->ends.host, "the server went away");
	print_result(o, &end, begin, report, &times);
	if (flow)
		gw_flow_close(flow);
	gw_context_close(end.ctx);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		{ "seconds", required_argument, NULL, 't' },
		{ "messages", required_argument, NULL, 'M' },
		{ "fabric", required_argument, NULL, 'f' },
		{ "scheme", required_argument, NULL, 'S' },
		{ "congestion", required_argument, NULL, 'C' },
		{ "rate", required_argument, NULL, 'R' },
		{ "grace", required_argument, NULL, 'g' },
		{ "message", required_argument, NULL, 'm' },
		{ 0 },
	};
	struct options o = {
		.ends = ENDS_DEFAULTS, .scheme = "sr", .congestion = "none", .message = 1 << 20
	};
	int option;

	o.ends.messages = 100;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'f':
			o.fabric = optarg;
			break;
		case 'S':
			o.scheme = optarg;
			break;
		case 'C':
			o.congestion = optarg;
			break;
		case 'R':
			o.rate_bps = parse_size("--rate", optarg);
			break;
		case 'g':
			o.grace_ns = (uint64_t)(parse_seconds("--grace", optarg) * 1e9);
			break;
		case 'm':
			o.message = parse_size("--message", optarg);
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv) || !o.fabric || !o.message ||
	    (strcmp(o.scheme, "sr") != 0 && strcmp(o.scheme, "bounded") != 0))
		die_text("usage", "godwit_stream --serve --fabric NAME | HOST --fabric NAME "
				  "[--scheme sr|bounded] [options]");
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	return 0;
}
