/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control from somebody who is not, or is no longer, an honest peer: wrong in one way at a time, then at random. What
 * cannot be true is counted under its reason and changes nothing. The body of choice is a close, for it would show.
 */
#include "../fabric/forge.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"

#define PAYLOAD 1024u
#define SLOTS	4u
#define LENGTH	(5 * PAYLOAD + 3)

/* End 1 has an open receive, end 0 a granted stream into it; each has its forger. */
struct scene {
	struct pair pair;
	struct forger forger[2];
	struct gw_recv *recv;
	struct gw_send *send;
	struct seen_send sent;
	struct seen_recv received;
};

static void scene_open(struct scene *scene)
{
	static const struct pair_attr attr = {
		.qp = { .payload = PAYLOAD, .slots = SLOTS, .peer_timeout_ns = 60000000000 }
	};
	struct pair *pair = &scene->pair;

	memset(scene, 0, sizeof(*scene));
	pair_open(pair, &attr);
	memset(pair->memory[1], 0xa5, LENGTH + 1000);
	fill_pattern(pair->memory[0], LENGTH, 1);
	scene->recv = pair_recv(pair, 1, 0, LENGTH, &scene->received);
	scene->send = pair_stream(pair, 0, LENGTH, &scene->sent);
	pair_until(pair, scene->sent.granted && scene->received.announced);
	pair_until(pair, pair->qp[0]->tx.announce_acked == pair->qp[0]->tx.matched &&
				 pair->qp[1]->rx.grants_acked == pair->qp[1]->rx.granted);
	pair_idle(pair, 1);
	for (int end = 0; end < 2; end++)
		forger_open(&scene->forger[end], "127.0.0.1", pair->qp[end]);
}

static void forget_counters(struct pair *pair)
{
	for (int end = 0; end < 2; end++) {
		memset(pair->ctx[end]->counters, 0, sizeof(pair->ctx[end]->counters));
		memset(pair->ctx[end]->fabric->counters, 0,
		       sizeof(pair->ctx[end]->fabric->counters));
	}
}

/* A good message still arrives. */
static void scene_close(struct scene *scene)
{
	struct pair *pair = &scene->pair;

	pair_put(pair, 0, scene->send, 0, LENGTH, 0, 6);
	pair_until(pair, pair_status(scene->recv).flags & GW_RECV_FULL);
	assert_memory_equal(pair->memory[1], pair->memory[0], LENGTH);
	assert_int_equal(gw_recv_complete(scene->recv), 0);
	pair_until(pair, scene->sent.results && scene->received.released);
	assert_int_equal(scene->sent.missing, 0);
	for (int end = 0; end < 2; end++)
		forger_close(&scene->forger[end]);
	forget_counters(pair);
	pair_close(pair);
}

struct letter {
	struct control_writer writer;
	uint8_t bytes[2048];
	size_t length;
};

static void begin(struct letter *letter, uint8_t type, const struct control_header *header)
{
	assert_int_equal(control_begin(&letter->writer, letter->bytes, sizeof(letter->bytes),
				       (enum control_type)type, header),
			 0);
}

static void make_close(struct letter *letter, const struct control_header *header)
{
	static const struct control_close body = { .text_length = 3,
						   .text = (const uint8_t *)"bye" };

	begin(letter, CONTROL_CLOSE, header);
	assert_int_equal(control_put_close(&letter->writer, &body), 0);
	letter->length = control_end(&letter->writer);
}

static void post(struct scene *scene, int end, const struct letter *letter, const char *reason)
{
	const struct forger *forger = &scene->forger[end];
	struct roce_packet packet;
	uint8_t bytes[FORGE_MAX];
	struct tally before = tally(forger->victim);
	size_t length;

	forge_control(forger, letter->bytes, letter->length, &packet);
	length = forge(forger, &packet, bytes);
	forge_send(forger, bytes, length);
	tally_await(forger->victim, &before, reason ? reason : "control_heard");
	tally_assert(forger->victim, &before, reason, 1);
	assert_int_equal(gw_qp_status(forger->qp), 0);
	assert_int_equal(pair_status(scene->recv).landed, 0);
}

static void not_for_us(void **state)
{
	struct scene scene;
	struct control_header header;
	struct roce_packet packet;
	struct letter letter;
	uint8_t bytes[FORGE_MAX];
	struct tally before;
	size_t length;

	(void)state;
	scene_open(&scene);
	header = forge_header(&scene.forger[1]);
	make_close(&letter, &header);
	for (unsigned bit = 0; bit < 32; bit++) {
		forge_control(&scene.forger[1], letter.bytes, letter.length, &packet);
		packet.deth.qkey ^= 1u << bit;
		length = forge(&scene.forger[1], &packet, bytes);
		before = tally(scene.pair.ctx[1]);
		forge_send(&scene.forger[1], bytes, length);
		tally_await(scene.pair.ctx[1], &before, "drop_qkey");
		tally_assert(scene.pair.ctx[1], &before, "drop_qkey", 1);
		header.token ^= 1u << bit;
		make_close(&letter, &header);
		post(&scene, 1, &letter, "drop_token");
		header.token ^= 1u << bit;
		make_close(&letter, &header);
	}
	for (unsigned version = 0; version < 256; version++) {
		if (version == CONTROL_VERSION)
			continue;
		letter.bytes[0] = (uint8_t)version;
		post(&scene, 1, &letter, "drop_control_version");
	}
	letter.bytes[0] = CONTROL_VERSION;
	for (unsigned type = 0; type < 256; type++) {
		if (type >= CONTROL_ANNOUNCE && type <= CONTROL_DATA)
			continue;
		letter.bytes[1] = (uint8_t)type;
		post(&scene, 1, &letter, "drop_control_unknown");
	}
	assert_int_equal(scene.pair.gone[1], 0);
	scene_close(&scene);
}

static void not_whole(void **state)
{
	struct scene scene;
	struct control_header header;
	struct letter letter;
	size_t whole;

	(void)state;
	scene_open(&scene);
	header = forge_header(&scene.forger[1]);
	make_close(&letter, &header);
	whole = letter.length;
	for (letter.length = 0; letter.length < whole; letter.length++)
		post(&scene, 1, &letter, "drop_control_malformed");
	letter.length = whole;
	put_be16(letter.bytes + 2, (uint16_t)(whole + 4));
	post(&scene, 1, &letter, "drop_control_malformed");
	put_be16(letter.bytes + 2, (uint16_t)whole);
	put_be16(letter.bytes + CONTROL_HEADER_SIZE + 2, 200); /* more text than there is */
	post(&scene, 1, &letter, "drop_control_malformed");
	scene_close(&scene);
}

/* The cumulative numbers: one further than anything this end ever said. */
static void claims_in_the_header(void **state)
{
	struct scene scene;
	struct letter letter;

	(void)state;
	scene_open(&scene);
	for (int end = 0; end < 2; end++) {
		const struct gw_qp *qp = scene.pair.qp[end];
		const struct control_header good = forge_header(&scene.forger[end]);
		struct control_header header;

		for (uint32_t ahead = 1; ahead < 1u << 30; ahead *= 8) {
			header = good;
			header.announced = qp->tx.matched + ahead;
			make_close(&letter, &header);
			post(&scene, end, &letter, "drop_claim");
			header = good;
			header.granted = qp->rx.granted + ahead;
			make_close(&letter, &header);
			post(&scene, end, &letter, "drop_claim");
			header = good;
			header.results = qp->rx.completed + ahead;
			make_close(&letter, &header);
			post(&scene, end, &letter, "drop_claim");
			header = good;
			header.completed = qp->tx.results_seen + SLOTS + ahead;
			make_close(&letter, &header);
			post(&scene, end, &letter, "drop_claim");
		}
		assert_int_equal(scene.pair.gone[end], 0);
	}
	scene_close(&scene);
}

static void claims_in_the_body(void **state)
{
	struct scene scene;
	struct control_header header;
	struct control_report report = { .hold_ns = CONTROL_NO_ECHO };
	struct control_grant_entry grant = { .capacity = LENGTH };
	struct control_announce_entry announcement = { .length = 10 };
	struct control_result result = { .missing = 0 };
	struct control_nack nack = { 0 };
	struct control_credit credit = { 0 };
	struct letter letter;
	struct gw_qp *qp;

	(void)state;
	scene_open(&scene);
	qp = scene.pair.qp[0];
	header = forge_header(&scene.forger[0]);
	/* A grant in a slot that is not its own. */
	grant.slot = (uint16_t)((qp->tx.grants_seen + 1) & (SLOTS - 1));
	begin(&letter, CONTROL_GRANT, &header);
	control_put_grant(&letter.writer, qp->tx.grants_seen);
	control_put_grant_entry(&letter.writer, &grant);
	letter.length = control_end(&letter.writer);
	post(&scene, 0, &letter, "drop_claim");
	/* A result for what was never sent. */
	result.msn = qp->tx.results_seen + SLOTS + 100;
	begin(&letter, CONTROL_REPORT, &header);
	control_put_report(&letter.writer, &report);
	control_put_result(&letter.writer, &result);
	letter.length = control_end(&letter.writer);
	post(&scene, 0, &letter, "drop_claim");
	/* Holes in a message that does not exist, and beyond one that does. */
	nack.msn = qp->tx.posted + 1;
	for (int i = 0; i < 2; i++) {
		begin(&letter, CONTROL_NACK, &header);
		control_put_nack(&letter.writer, &nack);
		letter.length = control_end(&letter.writer);
		post(&scene, 0, &letter, "drop_claim");
		nack.msn = scene.send->msn;
		nack.below = 7;
	}
	assert_int_equal(scene.sent.nacks, 0);
	/* A window of nothing, and one beyond reason. */
	for (int i = 0; i < 2; i++) {
		begin(&letter, CONTROL_CREDIT, &header);
		control_put_credit(&letter.writer, &credit);
		letter.length = control_end(&letter.writer);
		post(&scene, 0, &letter, "drop_claim");
		credit.window_packets = 0x7fffffff;
	}
	/* A message into a receive that was not granted. */
	header = forge_header(&scene.forger[1]);
	begin(&letter, CONTROL_ANNOUNCE, &header);
	control_put_announce(&letter.writer, scene.pair.qp[1]->rx.announced);
	control_put_announce_entry(&letter.writer, &announcement);
	letter.length = control_end(&letter.writer);
	post(&scene, 1, &letter, "drop_claim");
	scene_close(&scene);
}

/* Data that comes inside a control datagram is held to the same bounds as a packet. */
static void told_data(void **state)
{
	struct scene scene;
	struct control_header header;
	uint8_t bytes[PAYLOAD] = { 0 };
	struct control_data data = { .length = PAYLOAD, .bytes = bytes };
	struct letter letter;
	struct gw_recv *small;
	struct gw_qp *qp;

	(void)state;
	scene_open(&scene);
	qp = scene.pair.qp[1];
	/* One and a bit of a packet, and nobody has announced anything for it. */
	small = pair_recv(&scene.pair, 1, LENGTH, PAYLOAD + 10, NULL);
	pair_until(&scene.pair, qp->rx.grants_acked == qp->rx.granted);
	header = forge_header(&scene.forger[1]);
	data.msn = qp->rx.announced;
	for (data.packet = 1; data.packet < 4; data.packet++) {
		begin(&letter, CONTROL_DATA, &header);
		assert_int_equal(control_put_data(&letter.writer, &data), 0);
		letter.length = control_end(&letter.writer);
		post(&scene, 1, &letter, "drop_shape");
	}
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(scene.pair.memory[1][LENGTH + i], 0xa5);
	/* For a receive that was not granted. */
	data.msn = qp->rx.granted;
	data.packet = 0;
	begin(&letter, CONTROL_DATA, &header);
	assert_int_equal(control_put_data(&letter.writer, &data), 0);
	letter.length = control_end(&letter.writer);
	post(&scene, 1, &letter, "drop_claim");
	assert_int_equal(gw_recv_complete(small), 0);
	scene_close(&scene);
}

/* The first few are taken, for a peer may give what it likes; the real one is at odds with this end from then on. */
static void more_grants_than_slots(void **state)
{
	struct scene scene;
	struct control_header header;
	struct control_grant_entry grant = { .capacity = LENGTH };
	struct letter letter;
	struct gw_qp *qp;

	(void)state;
	scene_open(&scene);
	qp = scene.pair.qp[0];
	header = forge_header(&scene.forger[0]);
	begin(&letter, CONTROL_GRANT, &header);
	control_put_grant(&letter.writer, qp->tx.grants_seen);
	for (uint32_t i = 0; i < SLOTS + 1; i++) {
		grant.slot = (uint16_t)((qp->tx.grants_seen + i) & (SLOTS - 1));
		control_put_grant_entry(&letter.writer, &grant);
	}
	letter.length = control_end(&letter.writer);
	post(&scene, 0, &letter, "drop_claim");
	assert_int_equal(qp->tx.grants_seen - qp->tx.results_seen, SLOTS);
	for (int end = 0; end < 2; end++)
		forger_close(&scene.forger[end]);
	forget_counters(&scene.pair);
	pair_close(&scene.pair);
}

/* Old datagrams that come late or twice: no news, no offence. */
static void old_news(void **state)
{
	struct scene scene;
	struct control_header header;
	struct control_announce_entry announcement = { .length = 1, .imm = 77, .has_imm = true };
	struct letter letter;
	uint32_t imm;

	(void)state;
	scene_open(&scene);
	header = forge_header(&scene.forger[1]);
	header.announced -= 1000;
	header.granted -= 1;
	header.results -= 1000;
	header.completed -= 5;
	begin(&letter, CONTROL_ANNOUNCE, &header);
	control_put_announce(&letter.writer, scene.recv->msn);
	control_put_announce_entry(&letter.writer, &announcement);
	letter.length = control_end(&letter.writer);
	post(&scene, 1, &letter, NULL);
	assert_int_equal(scene.received.announced, 1);
	assert_int_equal(pair_status(scene.recv).length, LENGTH);
	assert_int_equal(gw_recv_imm(scene.recv, &imm), -ENODATA);
	scene_close(&scene);
}

/* A datagram of several messages: each is taken. */
static void several_in_one(void **state)
{
	struct scene scene;
	struct control_header header;
	struct letter letter;
	size_t length = 0;

	(void)state;
	scene_open(&scene);
	header = forge_header(&scene.forger[0]);
	for (uint32_t i = 1; i <= 3; i++) {
		struct control_credit credit = { 100 * i };

		assert_int_equal(control_begin(&letter.writer, letter.bytes + length,
					       sizeof(letter.bytes) - length, CONTROL_CREDIT,
					       &header),
				 0);
		assert_int_equal(control_put_credit(&letter.writer, &credit), 0);
		length += control_end(&letter.writer);
	}
	control_received(scene.pair.qp[0], letter.bytes, (uint32_t)length);
	assert_int_equal(scene.pair.qp[0]->feedback.window, 300);
	scene_close(&scene);
}

/* A right header vouches for no other one in the datagram. */
static void each_header_counts(void **state)
{
	struct scene scene;
	struct control_header headers[4];
	struct letter letter;
	size_t length = 0;
	struct gw_context *ctx;

	(void)state;
	scene_open(&scene);
	ctx = scene.pair.ctx[0];
	forget_counters(&scene.pair);
	for (uint32_t i = 0; i < 4; i++) {
		struct control_credit credit = { 100 * (i + 1) };

		headers[i] = forge_header(&scene.forger[0]);
		if (i == 1)
			headers[i].token++;
		if (i == 3)
			headers[i].announced += 1000;
		assert_int_equal(control_begin(&letter.writer, letter.bytes + length,
					       sizeof(letter.bytes) - length, CONTROL_CREDIT,
					       &headers[i]),
				 0);
		assert_int_equal(control_put_credit(&letter.writer, &credit), 0);
		length += control_end(&letter.writer);
	}
	control_received(scene.pair.qp[0], letter.bytes, (uint32_t)length);
	assert_int_equal(scene.pair.qp[0]->feedback.window, 300);
	assert_int_equal(ctx->counters[COUNT_DROP_TOKEN], 1);
	assert_int_equal(ctx->counters[COUNT_DROP_CLAIM], 1);
	scene_close(&scene);
}

/* Anything at all under the right token. The queue pair may end of it; memory that was not granted may not change. */
static void storm(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 42);
	for (unsigned round = 0; round < 40; round++) {
		struct scene scene;

		scene_open(&scene);
		for (unsigned i = 0; i < 400; i++) {
			int end = (int)rng_below(&rng, 2);
			struct control_header header = forge_header(&scene.forger[end]);
			struct letter letter;
			uint8_t *body = letter.bytes + CONTROL_HEADER_SIZE;
			uint8_t type = (uint8_t)(1 + rng_below(&rng, CONTROL_DATA));

			if (type == CONTROL_CLOSE && rng_below(&rng, 50))
				type = CONTROL_REPORT;
			begin(&letter, type, &header);
			letter.length = CONTROL_HEADER_SIZE + rng_below(&rng, 200);
			put_be16(letter.bytes + 2, (uint16_t)letter.length);
			memset(body, 0, sizeof(letter.bytes) - CONTROL_HEADER_SIZE);
			for (unsigned j = 0; j < letter.length - CONTROL_HEADER_SIZE; j++)
				if (!rng_below(&rng, 4))
					body[j] = (uint8_t)(rng_below(&rng, 2)
								    ? rng_below(&rng, 4)
								    : rng_below(&rng, 256));
			/* Most are about messages near those that exist. */
			if (rng_below(&rng, 4))
				put_be32(body, header.granted - 2 + (uint32_t)rng_below(&rng, 6));
			control_received(scene.pair.qp[end], letter.bytes, (uint32_t)letter.length);
			if (!rng_below(&rng, 8))
				pair_step(&scene.pair);
		}
		for (unsigned i = LENGTH; i < LENGTH + 1000; i++)
			assert_int_equal(scene.pair.memory[1][i], 0xa5);
		for (int end = 0; end < 2; end++) {
			assert_int_equal(gw_qp_close(scene.pair.qp[end]), 0);
			forger_close(&scene.forger[end]);
		}
		forget_counters(&scene.pair);
		pair_close(&scene.pair);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_for_us),
		cmocka_unit_test(not_whole),
		cmocka_unit_test(claims_in_the_header),
		cmocka_unit_test(claims_in_the_body),
		cmocka_unit_test(more_grants_than_slots),
		cmocka_unit_test(old_news),
		cmocka_unit_test(several_in_one),
		cmocka_unit_test(each_header_counts),
		cmocka_unit_test(told_data),
		cmocka_unit_test(storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
