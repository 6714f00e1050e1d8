/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_stream: what UCX carries from one host to another, as tagged messages.
 *
 * Usage: ucx_stream --serve [--bind ADDRESS]
 *	  ucx_stream HOST [--seconds S] [--warm-up S] [--message SIZE] [--working-set SIZE] [--depth N]
 *	  ucx_stream HOST --messages N [--seconds S] [--message SIZE] [--working-set SIZE]
 *	  both: [--port N]
 *
 * UCX's own ucx_perftest sends from one buffer that nobody ever wrote to: the kernel gives it the
 * same page of zeros everywhere, which stays in the cache whatever the size. Here messages come
 * from a working set that is really there. A number of sends is outstanding, and as many receives
 * are posted at the other side. The workers are asked for progress again and again. With a warm-up,
 * bytes and time count at the server and from then on. With --messages they go one by one, and the
 * next begins when the server's answer to the last is there.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "ends.h"
#include "times.h"

#define DEPTH_MAX     1024
#define ADDRESS_WORDS 512
#define TURNS_A_LOOK  100000
#define TAIL_BYTES    8
/*
 * The low bits of a tag are always the same. The last message, which may be there before those
 * that were sent as rendezvous have ended, says above them how many there are with itself.
 */
#define TAG	  1
#define TAG_BACK  2 /* of an answer */
#define TAG_MASK  0xff
#define TAG_SHIFT 8

struct options {
	struct ends ends;
	uint64_t message;
	uint64_t depth;
};

enum { HELLO_MESSAGE, HELLO_WORKING_SET, HELLO_DEPTH, HELLO_ANSWER, HELLO_WARM_UP_NS, HELLO_WORDS };
enum { REPORT_BYTES, REPORT_CPU_NS, REPORT_WARM_BYTES, REPORT_WARM_NS, REPORT_WORDS };

struct end {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	uint8_t *memory;
	uint64_t places;
	uint64_t done; /* requests that completed */
	uint64_t bytes;
	uint64_t total; /* requests there will be, once it is known */
	uint64_t answers;
	uint8_t answer[TAIL_BYTES];
};

static void check(const char *what, ucs_status_t status)
{
	if (status != UCS_OK)
		die_text(what, ucs_status_string(status));
}

static void open_worker(struct end *e)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				.features = UCP_FEATURE_TAG };
	ucp_worker_params_t worker = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				       .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_config_t *config;

	check("ucp_config_read", ucp_config_read(NULL, NULL, &config));
	check("ucp_init", ucp_init(&params, config, &e->context));
	ucp_config_release(config);
	check("ucp_worker_create", ucp_worker_create(e->context, &worker, &e->worker));
}

/* Each end tells the other where its worker is found. */
static void meet(struct end *e, int control)
{
	uint64_t own[1 + ADDRESS_WORDS] = { 0 }, other[1 + ADDRESS_WORDS];
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
				   .address = (const ucp_address_t *)&other[1] };
	ucp_address_t *address;
	size_t length;

	check("ucp_worker_get_address", ucp_worker_get_address(e->worker, &address, &length));
	if (length > sizeof(own) - sizeof(own[0]))
		die_text("worker address", "too long");
	own[0] = length;
	memcpy(&own[1], address, length);
	ucp_worker_release_address(e->worker, address);
	tell(control, own, 1 + ADDRESS_WORDS);
	if (!hear(control, other, 1 + ADDRESS_WORDS))
		die_text("the other end", "went away");
	check("ucp_ep_create", ucp_ep_create(e->worker, &params, &e->ep));
}

static void on_sent(void *request, ucs_status_t status, void *user)
{
	struct end *e = user;

	check("send", status);
	e->done++;
	ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
			void *user)
{
	struct end *e = user;

	check("receive", status);
	e->done++;
	e->bytes += info->length;
	if (info->sender_tag >> TAG_SHIFT)
		e->total = info->sender_tag >> TAG_SHIFT;
	ucp_request_free(request);
}

static void on_answered(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
			void *user)
{
	struct end *e = user;

	(void)info;
	check("answer", status);
	e->answers++;
	ucp_request_free(request);
}

static void on_answer_sent(void *request, ucs_status_t status, void *user)
{
	(void)user;
	check("answer", status);
	ucp_request_free(request);
}

static void answer(struct end *e)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
				      .cb.send = on_answer_sent };
	ucs_status_ptr_t request =
		ucp_tag_send_nbx(e->ep, e->answer, sizeof(e->answer), TAG_BACK, &param);

	if (UCS_PTR_IS_ERR(request))
		check("answer", UCS_PTR_STATUS(request));
}

static void await_answer(struct end *e)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA |
						      UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
				      .cb.recv = on_answered,
				      .user_data = e };
	ucs_status_ptr_t request = ucp_tag_recv_nbx(e->worker, e->answer, sizeof(e->answer),
						    TAG_BACK, TAG_MASK, &param);
	uint64_t answers = e->answers;

	if (UCS_PTR_IS_ERR(request))
		check("answer", UCS_PTR_STATUS(request));
	while (e->answers == answers)
		ucp_worker_progress(e->worker);
}

static void post_send(struct end *e, void *from, uint64_t length, ucp_tag_t tag)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA,
				      .cb.send = on_sent,
				      .user_data = e };
	ucs_status_ptr_t request = ucp_tag_send_nbx(e->ep, from, length, tag, &param);

	if (UCS_PTR_IS_ERR(request))
		check("send", UCS_PTR_STATUS(request));
	if (!request)
		e->done++;
}

static void post_receive(struct end *e, void *to, uint64_t length)
{
	/* Never complete at once: only the callback is sure to learn of length and tag. */
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
						      UCP_OP_ATTR_FIELD_USER_DATA |
						      UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
				      .cb.recv = on_received,
				      .user_data = e };
	ucs_status_ptr_t request = ucp_tag_recv_nbx(e->worker, to, length, TAG, TAG_MASK, &param);

	if (UCS_PTR_IS_ERR(request))
		check("receive", UCS_PTR_STATUS(request));
}

/*
 * Hears the other end and goes on making progress meanwhile: what counts as done here may not
 * have left yet.
 */
static bool hear_on(struct end *e, int control, uint64_t *words, size_t count)
{
	uint8_t byte;

	while (recv(control, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN)
		ucp_worker_progress(e->worker);
	return hear(control, words, count);
}

static void serve(const struct options *o)
{
	int control = tcp_accept(tcp_listen(o->ends.bind, o->ends.port, 0));
	uint64_t hello[HELLO_WORDS], report[REPORT_WORDS] = { 0 }, posted = 0, turns = 0, seen = 0;
	uint64_t cpu, warm_ns, warmed_ns = 0;
	struct end e = { .total = UINT64_MAX };

	if (!hear(control, hello, HELLO_WORDS) || hello[HELLO_MESSAGE] <= TAIL_BYTES ||
	    !hello[HELLO_DEPTH] || hello[HELLO_DEPTH] > DEPTH_MAX)
		die_text("the other end", "not a ucx_stream");
	open_worker(&e);
	e.memory = working_set(hello[HELLO_WORKING_SET]);
	e.places = hello[HELLO_WORKING_SET] / hello[HELLO_MESSAGE];
	meet(&e, control);

	cpu = cpu_ns();
	warm_ns = now_ns() + hello[HELLO_WARM_UP_NS];
	while (e.done < e.total) {
		while (posted - e.done < hello[HELLO_DEPTH] && e.total == UINT64_MAX) {
			uint64_t place = posted++ % e.places * hello[HELLO_MESSAGE];

			post_receive(&e, e.memory + place, hello[HELLO_MESSAGE]);
		}
		ucp_worker_progress(e.worker);
		if (!(++turns % TURNS_A_LOOK))
			check_still_there(control);
		for (; hello[HELLO_ANSWER] && seen < e.done; seen++)
			answer(&e);
		if (hello[HELLO_WARM_UP_NS] && !warmed_ns && now_ns() >= warm_ns) {
			warmed_ns = now_ns();
			report[REPORT_WARM_BYTES] = e.bytes;
		}
	}
	report[REPORT_BYTES] = e.bytes - TAIL_BYTES;
	report[REPORT_CPU_NS] = cpu_ns() - cpu;
	report[REPORT_WARM_NS] = warmed_ns ? now_ns() - warmed_ns : 0;
	tell(control, report, REPORT_WORDS);
	/* The worker stays until the client has gone: its connection would break otherwise. */
	hear_on(&e, control, hello, 1);
}

static void one_by_one(struct end *e, const struct options *o, struct times *times)
{
	uint64_t sent = 0;

	times_open(times, o->ends.messages, o->ends.seconds_ns);
	while (times_next(times)) {
		post_send(e, e->memory + sent++ % e->places * o->message, o->message, TAG);
		await_answer(e);
		times_end(times);
	}
	post_send(e, e->memory, TAIL_BYTES, (sent + 1) << TAG_SHIFT | TAG);
	while (e->done < sent + 1)
		ucp_worker_progress(e->worker);
}

static void stream(struct end *e, const struct options *o, uint64_t begin)
{
	uint64_t sent = 0;
	bool tail = false;

	while (!tail || e->done < sent) {
		while (!tail && sent - e->done < o->depth) {
			tail = now_ns() - begin >= o->ends.seconds_ns;
			post_send(e, e->memory + sent % e->places * o->message,
				  tail ? TAIL_BYTES : o->message,
				  tail ? (sent + 1) << TAG_SHIFT | TAG : TAG);
			sent++;
		}
		ucp_worker_progress(e->worker);
	}
}

static void measure(const struct options *o)
{
	int control = tcp_connect(o->ends.host, o->ends.port, 0, NULL);
	struct end e = { .places = o->ends.working_set / o->message };
	uint64_t hello[HELLO_WORDS] = { [HELLO_MESSAGE] = o->message,
					[HELLO_WORKING_SET] = o->ends.working_set,
					[HELLO_DEPTH] = o->ends.messages ? 1 : o->depth,
					[HELLO_ANSWER] = o->ends.messages > 0,
					[HELLO_WARM_UP_NS] = o->ends.warm_up_ns };
	uint64_t report[REPORT_WORDS], begin, cpu, wall;
	struct times times = { 0 };

	tell(control, hello, HELLO_WORDS);
	open_worker(&e);
	e.memory = working_set(o->ends.working_set);
	meet(&e, control);

	begin = now_ns();
	cpu = cpu_ns();
	if (o->ends.messages)
		one_by_one(&e, o, &times);
	else
		stream(&e, o, begin);
	cpu = cpu_ns() - cpu;
	if (!hear_on(&e, control, report, REPORT_WORDS))
		die_text(o->ends.host, "the server went away");
	wall = report[REPORT_WARM_NS] ? report[REPORT_WARM_NS] : now_ns() - begin;
	printf("{\"peer\": \"ucx_stream\", \"message_bytes\": %lu, \"working_set_bytes\": %lu, "
	       "\"depth\": %lu, \"bytes\": %lu",
	       o->message, o->ends.working_set, o->depth,
	       report[REPORT_BYTES] - report[REPORT_WARM_BYTES]);
	print_seconds("seconds", wall);
	print_seconds("sender_cpu_s", cpu);
	print_seconds("receiver_cpu_s", report[REPORT_CPU_NS]);
	if (o->ends.messages)
		times_print(&times);
	printf("}\n");
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		ENDS_OPTIONS,
		ENDS_STREAM_OPTIONS,
		{ "message", required_argument, NULL, 'm' },
		{ "depth", required_argument, NULL, 'd' },
		ENDS_MESSAGES_OPTIONS,
		{ 0 },
	};
	struct options o = { .ends = ENDS_DEFAULTS, .message = 256 << 10, .depth = 4 };
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'm':
			o.message = parse_size("--message", optarg);
			break;
		case 'd':
			o.depth = parse_size("--depth", optarg);
			break;
		default:
			if (!ends_take(&o.ends, option))
				return 2;
		}
	}
	if (!ends_settle(&o.ends, argc, argv))
		die_text("usage", "ucx_stream --serve | HOST [options]");
	if (o.message <= TAIL_BYTES || o.ends.working_set < o.message || !o.depth ||
	    o.depth > DEPTH_MAX)
		die_text("usage", "message above 8, working set no smaller, depth 1 to 1024");
	if (o.ends.server)
		serve(&o);
	else
		measure(&o);
	return 0;
}
