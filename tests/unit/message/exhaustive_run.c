/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One run of a scene. Both messages must end at both ends with status 0 and the right bytes, each end must be told once,
 * nothing else may be written to, a third message must go through after the faults, and no request may keep memory.
 */
#include "exhaustive.h"

#include <string.h>

#define REGION_LEAST 20480u
#define QUEUE	     128u
#define UNTOUCHED    0xa5
#define LIMIT	     (60 * S)
#define LATE_NS	     (3 * MS)

struct run run;

static enum duo_fate fate_of(struct duo *duo, int end, bool control, size_t length)
{
	char letter;

	(void)end;
	if (!run.armed)
		return DUO_DELIVERED;
	if (run.carries && length > run.carries)
		return DUO_LOST;
	if (!control && run.scene->shrink == SHRINK_DURING &&
	    ++run.data == run.scene->shrink_after + 1) {
		run.carries = SMALL_PATH;
		sim_path_payload(duo->world.sim, SMALL_PATH);
		if (length > run.carries)
			return DUO_LOST;
	}
	if (!run.begun || run.asked >= PATTERN_MAX)
		return DUO_DELIVERED;
	letter = run.pattern[run.asked];
	if (!letter) {
		run.pattern[run.asked] = letter = '.';
		run.pattern[run.asked + 1] = '\0';
	}
	if (run.shown)
		print_message("             %c\n", letter);
	run.asked++;
	run.faults += letter != '.';
	switch (letter) {
	case 'x':
		return DUO_LOST;
	case '2':
		return DUO_TWICE;
	case 's':
		return DUO_SWAPPED;
	default:
		return DUO_DELIVERED;
	}
}

/* A replay prints what leaves: time, end, and what a datagram is made of or a packet's number. */
static bool watch_control(struct duo *duo, int end, const struct control_message *message,
			  const void *bytes)
{
	static const char *const types[] = { "",       "announce", "grant", "report",
					     "nack",   "credit",   "probe", "close",
					     "scheme", "size",	   "data" };

	(void)bytes;
	if (run.armed && message->header.type == CONTROL_SIZE && end == 0) {
		bool cut = message->size.kind == CONTROL_SIZE_CUT;
		bool doubt = message->size.kind == CONTROL_SIZE_PROBE && run.carries;

		run.begun |= run.scene->from == FROM_CUT ? cut : doubt;
	}
	if (run.shown)
		print_message("%9lu us  %d %s\n", (unsigned long)((duo_now(duo) - S) / US), end,
			      types[message->header.type]);
	return false;
}

static bool show_data(struct duo *duo, uint32_t packet, bool again)
{
	print_message("%9lu us  packet %u%s\n", (unsigned long)((duo_now(duo) - S) / US), packet,
		      again ? ", again" : "");
	return false;
}

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct item *item = arg;

	(void)now;
	item->sent++;
	item->sent_status = result->status;
	item->sent_at = duo_now(&run.duo);
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct item *item = arg;

	(void)now;
	item->received++;
	item->received_status = result->status;
	item->received_at = duo_now(&run.duo);
}

static void post_recv(uint32_t i)
{
	struct item *item = &run.items[i];
	struct gw_transfer_attr attr = { .addr = run.duo.memory[1] + i * run.region,
					 .length = item->length,
					 .mr = run.duo.mr[1],
					 .done = received,
					 .arg = item };
	struct gw_recv_attr raw = { .addr = attr.addr, .length = attr.length, .mr = attr.mr };

	if (run.scene->raw)
		assert_int_equal(gw_recv_post(run.duo.qp[1], &raw, &item->recv), 0);
	else
		assert_int_equal(
			gw_transfer_recv(run.duo.qp[1], &gw_selective_repeat, &attr, &item->recv),
			0);
	world_touch(&run.duo.world, 1);
}

static void post_send(uint32_t i)
{
	struct item *item = &run.items[i];
	struct gw_transfer_attr attr = { .addr = run.duo.memory[0] + i * run.region,
					 .length = item->length,
					 .mr = run.duo.mr[0],
					 .done = sent,
					 .arg = item };
	struct gw_send_attr raw = { .addr = attr.addr, .length = attr.length, .mr = attr.mr };

	if (run.scene->raw)
		assert_int_equal(gw_send_post(run.duo.qp[0], &raw, &item->send), 0);
	else
		assert_int_equal(
			gw_transfer_send(run.duo.qp[0], &gw_selective_repeat, &attr, &item->send),
			0);
	world_touch(&run.duo.world, 0);
}

static bool is_over(const struct item *item)
{
	return item->sent && item->received;
}

/* Bits set are right bytes. */
static void check_bits(const struct item *item, uint32_t i)
{
	struct gw_recv_status status;
	struct gw_run hole;

	assert_int_equal(gw_recv_status(item->recv, &status), 0);
	for (uint32_t at = 0; at < status.packets;) {
		uint64_t first = (uint64_t)at * status.payload, end = item->length;

		if (gw_recv_next_hole(item->recv, at, status.packets, &hole) != 1)
			hole = (struct gw_run){ status.packets, 0 };
		if ((uint64_t)hole.first * status.payload < end)
			end = (uint64_t)hole.first * status.payload;
		if (end > first)
			assert_memory_equal(run.duo.memory[1] + i * run.region + first,
					    run.duo.memory[0] + i * run.region + first,
					    end - first);
		at = hole.first + hole.count;
	}
}

/* A bare message is over when it is whole, or when nothing more can come. */
static void finish_raw(uint32_t i)
{
	struct item *item = &run.items[i];
	struct gw_recv_status status = { 0 };
	uint64_t limit = duo_now(&run.duo) + 3 * S;

	duo_until(&run.duo, LIMIT, gw_send_test(item->send));
	while (!gw_recv_status(item->recv, &status) && !(status.flags & GW_RECV_FULL))
		if (!duo_step(&run.duo, limit))
			break;
	assert_true(run.faults || run.scene->shrink || status.flags & GW_RECV_FULL);
	assert_int_equal(gw_send_test(item->send), 1);
	check_bits(item, i);
	assert_int_equal(gw_recv_complete(item->recv), 0);
	world_touch(&run.duo.world, 1);
	duo_until(&run.duo, LIMIT, gw_recv_test(item->recv));
	assert_int_equal(gw_recv_test(item->recv), 1);
	check_bits(item, i);
	item->sent = item->received = 1;
}

static void check(uint32_t i)
{
	struct item *item = &run.items[i];
	const uint8_t *at = run.duo.memory[1] + i * run.region;

	assert_int_equal(item->sent, 1);
	assert_int_equal(item->received, 1);
	assert_int_equal(item->sent_status, 0);
	assert_int_equal(item->received_status, 0);
	if (!run.scene->raw)
		assert_memory_equal(run.duo.memory[0] + i * run.region, at, item->length);
	if (at[item->length] != UNTOUCHED ||
	    memcmp(at + item->length, at + item->length + 1, run.region - item->length - 1) != 0)
		fail_msg("message %u: memory behind its end was written to", i);
	assert_int_equal(gw_send_close(item->send), 0);
	assert_int_equal(gw_recv_close(item->recv), 0);
}

static void open_run(const struct scene *scene)
{
	uint64_t longest = scene->lengths[scene->lengths[1] > scene->lengths[0]];
	struct duo_attr attr = { .link = { .rate_bps = 1000000000 },
				 .bitmap_bytes = 1 << 16,
				 .host = { .queue = scene->queue ? scene->queue : QUEUE },
				 .seed = 1 };

	run.region = longest < REGION_LEAST ? REGION_LEAST : longest + 512;
	attr.memory_bytes = (MESSAGES + 1) * run.region;
	attr.link.delay_ns = scene->delay_ns ? scene->delay_ns : DELAY_NS;
	attr.qp.slots = scene->slots ? scene->slots : 4;
	attr.path_payload = scene->path_payload;
	run.carries = scene->path_payload;
	if (scene->sizes) {
		attr.qp.payload = SIZE_CEILING;
		attr.rungs[0] = SIZE_FLOOR;
	}
	if (scene->promised)
		attr.qp.first_bytes = scene->lengths[0];
	if (scene->nic)
		attr.host = (struct sim_host_attr){ .nic = true,
						    .queue = QUEUE,
						    .undrained = true,
						    .fence_ns = 20 * US,
						    .completion_ns = 20 * US,
						    .read_ns = 5 * US };
	duo_open(&run.duo, &attr);
	memset(run.duo.memory[1], UNTOUCHED, run.duo.memory_bytes);
	for (uint32_t i = 0; i < MESSAGES; i++)
		run.items[i].length = i < 2 ? scene->lengths[i] : 1500;
}

/* A message without faults, after which the ends know the largest packets that the path carries. */
static void warm_up(void)
{
	run.items[2].length = 1500;
	post_recv(2);
	post_send(2);
	if (run.scene->raw)
		finish_raw(2);
	duo_until(&run.duo, LIMIT, is_over(&run.items[2]));
	check(2);
	memset(run.duo.memory[1], UNTOUCHED, run.duo.memory_bytes);
	memset(&run.items[2], 0, sizeof(run.items[2]));
	run.items[2].length = 1500;
	duo_run(&run.duo, 100 * MS);
	assert_int_equal(duo_estimate(&run.duo, 0).payload_settled, 1);
}

/* The two messages, with faults. */
static void two_messages(void)
{
	const struct scene *scene = run.scene;
	uint64_t start = duo_now(&run.duo), last = 0;

	if (scene->late)
		start += LATE_NS;
	else
		post_recv(0);
	post_send(0);
	if (scene->shrink != SHRINK_BETWEEN) {
		if (!scene->late)
			post_recv(1);
		post_send(1);
	}
	if (scene->late) {
		duo_run(&run.duo, LATE_NS);
		post_recv(0);
		post_recv(1);
	}
	if (scene->shrink == SHRINK_BETWEEN) {
		duo_until(&run.duo, LIMIT, is_over(&run.items[0]));
		sim_path_payload(run.duo.world.sim, SMALL_PATH);
		run.carries = SMALL_PATH;
		post_recv(1);
		post_send(1);
	}
	for (uint32_t i = 0; i < 2; i++) {
		const struct item *item = &run.items[i];

		if (scene->raw)
			finish_raw(i);
		duo_until(&run.duo, LIMIT, is_over(item));
		last = item->sent_at > last ? item->sent_at : last;
		last = item->received_at > last ? item->received_at : last;
	}
	run.took_ns = last > start ? last - start : 0;
}

void run_pattern(const struct scene *scene)
{
	struct gw_recv *promised = NULL;
	uint32_t faults;

	run.scene = scene;
	run.asked = run.faults = run.data = 0;
	run.armed = false;
	run.open = true;
	memset(run.items, 0, sizeof(run.items));
	open_run(scene);
	run.duo.fate = fate_of;
	run.duo.lose_control = watch_control;
	if (run.shown)
		run.duo.lose_data = show_data;
	if (scene->promised) {
		/* What both ends promise both must post. */
		struct gw_recv_attr attr = { .addr = run.duo.memory[0] + MESSAGES * run.region,
					     .length = scene->lengths[0],
					     .mr = run.duo.mr[0] };

		assert_int_equal(gw_recv_post(run.duo.qp[0], &attr, &promised), 0);
	}
	if (scene->shrink)
		warm_up();
	run.armed = true;
	run.begun = scene->from == FROM_POST;
	two_messages();
	run.armed = false;
	faults = run.faults;
	if (!scene->raw || !scene->shrink)
		run.faults = 0;
	duo_release(&run.duo);
	post_recv(2);
	post_send(2);
	if (scene->raw)
		finish_raw(2);
	duo_until(&run.duo, 5 * S, is_over(&run.items[2]));
	duo_run(&run.duo, 50 * MS);
	run.faults = faults;
	for (uint32_t i = 0; i < MESSAGES; i++)
		check(i);
	if (promised) {
		assert_int_equal(gw_recv_complete(promised), 0);
		world_touch(&run.duo.world, 0);
		duo_until(&run.duo, LIMIT, gw_recv_test(promised));
		assert_int_equal(gw_recv_close(promised), 0);
	}
	for (int end = 0; end < 2; end++) {
		assert_int_equal(run.duo.gone[end], 0);
		assert_int_equal(gw_mr_deregister(run.duo.mr[end]), 0);
	}
	duo_close(&run.duo);
}
