/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A description that names somebody else's address. Until that address has repeated a number that was sent to it, it gets a
 * few small probes, and at most three bytes for each one that seems to come from it; never data. The attacker here has
 * connected to the victim's rendezvous, and so knows every key and token, and can forge the third party's address.
 */
#include "forge.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define THIRD	 "127.0.0.2"
#define LENGTH	 (1u << 20)
#define RECEIVES 64u
#define WATCH_NS UINT64_C(1500000000)
/* Bytes of UDP that an address may get that never sent anything: those at once, and those of a second and a half. */
#define PROBES_MOST 1024u
/* Bytes of a datagram below its data, as the limit counts them. */
#define OVERHEAD 72u

struct scene {
	struct pair pair;
	/* The third party's socket, from which the attacker also forges. */
	struct forger third;
	struct gw_send *send;
	/* What the third party got. */
	uint64_t bytes, datagrams, data;
	/* Number in the last probe. */
	uint64_t number;
};

static uint64_t now_ns(const struct scene *scene)
{
	return gw_now_ns(scene->pair.ctx[0]);
}

static void scene_open(struct scene *scene, const char *peer_host)
{
	struct gw_qp_attr attr = { .peer_timeout_ns = 60000000000, .peer_host = peer_host };
	union socket_address at;
	socklen_t length = sizeof(at);
	struct gw_qp_info info;
	struct gw_qp *other;

	memset(scene, 0, sizeof(*scene));
	pair_open_contexts(&scene->pair, &(struct pair_attr){ 0 });
	assert_int_equal(gw_qp_create(scene->pair.ctx[0], &attr, &scene->pair.qp[0]), 0);
	forger_open(&scene->third, THIRD, scene->pair.qp[0]);
	assert_int_equal(getsockname(scene->third.fd, &at.any, &length), 0);
	attr.first_bytes = LENGTH;
	assert_int_equal(gw_qp_create(scene->pair.ctx[1], &attr, &other), 0);
	assert_int_equal(gw_qp_info(other, &info), 0);
	put_be32(info.bytes + 28, UINT32_MAX);
	put_be16(info.bytes + 48 + 2, ntohs(at.v4.sin_port));
	memcpy(info.bytes + 48 + 4, &at.v4.sin_addr, 4);
	assert_int_equal(gw_qp_connect(scene->pair.qp[0], &info), 0);
	assert_true(scene->pair.qp[0]->feedback.window <= CREDIT_MAX);
	scene->send = pair_send(&scene->pair, 0, 0, LENGTH, NULL);
}

static void scene_close(struct scene *scene)
{
	forger_close(&scene->third);
	pair_close(&scene->pair);
}

static void look_for_probe(struct scene *scene, const uint8_t *bytes, size_t length)
{
	while (length) {
		int first = control_first(bytes, length);
		struct control_message message;

		assert_true(first > 0);
		assert_int_equal(control_decode(bytes, (size_t)first, &message), 0);
		if (message.header.type == CONTROL_PROBE &&
		    message.probe.kind == CONTROL_PROBE_REQUEST)
			scene->number = message.probe.time_ns;
		bytes += first;
		length -= (size_t)first;
	}
}

/* Reads what came to the third party. */
static void look(struct scene *scene)
{
	uint8_t bytes[FORGE_MAX + 2048];
	ssize_t n;

	while ((n = recv(scene->third.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		struct roce_packet packet;

		scene->bytes += (uint64_t)n;
		scene->datagrams++;
		assert_int_equal(roce_decode(bytes, (size_t)n, &packet), 0);
		if (packet.kind == ROCE_UD_SEND)
			look_for_probe(scene, packet.payload, packet.payload_length);
		else
			scene->data++;
	}
}

static void watch(struct scene *scene, uint64_t ns)
{
	uint64_t until = now_ns(scene) + ns;

	while (now_ns(scene) < until) {
		gw_wait(scene->pair.ctx[0], 1000000);
		look(scene);
	}
}

/* A control message in the third party's name; returns its bytes as the limit counts them. */
static uint64_t forge_message(struct scene *scene, enum control_type type, uint64_t number)
{
	struct control_header header = forge_header(&scene->third);
	struct control_probe probe = { .kind = CONTROL_PROBE_REPLY, .time_ns = number };
	struct control_credit credit = { CREDIT_MAX };
	struct control_writer writer;
	uint8_t bytes[256], datagram[FORGE_MAX];
	struct roce_packet packet;
	size_t length;

	control_begin(&writer, bytes, sizeof(bytes), type, &header);
	if (type == CONTROL_PROBE)
		control_put_probe(&writer, &probe);
	else
		control_put_credit(&writer, &credit);
	length = control_end(&writer);
	forge_control(&scene->third, bytes, length, &packet);
	forge_send(&scene->third, datagram, forge(&scene->third, &packet, datagram));
	return length + OVERHEAD;
}

static void an_address_that_is_silent_gets_probes_only(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, NULL);
	watch(&scene, WATCH_NS);
	assert_true(scene.datagrams >= 3);
	assert_in_range(scene.bytes, 1, PROBES_MOST);
	assert_int_equal(scene.data, 0);
	scene_close(&scene);
}

static void forged_packets_bring_three_times_their_bytes(void **state)
{
	struct scene scene;
	uint64_t heard = 0;

	(void)state;
	scene_open(&scene, NULL);
	/* Grants of all these are waiting to be told. */
	for (uint64_t i = 0; i < RECEIVES; i++)
		pair_recv(&scene.pair, 0, LENGTH + i * 64, 64, NULL);
	for (int i = 0; i < 100; i++) {
		heard += forge_message(&scene, CONTROL_CREDIT, 0);
		/* Guesses: a time, which is what honest ends of old sent, and what was never sent. */
		heard += forge_message(&scene, CONTROL_PROBE,
				       i % 2 ? now_ns(&scene) : scene.number + 1);
		watch(&scene, WATCH_NS / 100);
		assert_in_range(scene.bytes, 0, PROBES_MOST + 3 * heard);
		assert_int_equal(scene.data, 0);
	}
	scene_close(&scene);
}

static void an_echo_opens_the_way(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, NULL);
	watch(&scene, WATCH_NS / 10);
	assert_int_equal(scene.data, 0);
	assert_true(scene.number != 0);
	forge_message(&scene, CONTROL_PROBE, scene.number);
	watch(&scene, WATCH_NS / 10);
	assert_true(scene.data > 16);
	scene_close(&scene);
}

/* The host that the rendezvous met has shown that it is there: no round trip is lost. */
static void a_host_that_was_met_gets_data_at_once(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, THIRD);
	watch(&scene, WATCH_NS / 30);
	assert_true(scene.data > 16);
	scene_close(&scene);
	/* Another one has not. */
	scene_open(&scene, "127.0.0.20");
	watch(&scene, WATCH_NS / 30);
	assert_int_equal(scene.data, 0);
	scene_close(&scene);
}

/* Two honest ends, neither of which knows the other's address, also with lanes and when packets are lost. */
static void honest_strangers_meet(void **state)
{
	struct gw_faults faults = { .drop = 0.3, .seed = 7 };

	(void)state;
	for (int lossy = 0; lossy < 2; lossy++) {
		struct pair_attr attr = { .strangers = true,
					  .context = { .lanes = lossy ? 4 : 1 },
					  .faults = lossy ? &faults : NULL };
		struct gw_recv *recv;
		struct pair pair;

		pair_open(&pair, &attr);
		recv = pair_recv(&pair, 1, 0, 100, NULL);
		pair_send(&pair, 0, 0, 100, NULL);
		pair_until(&pair, pair.qp[0]->reach.proven && pair.qp[1]->reach.proven);
		if (!lossy)
			pair_until(&pair, pair_status(recv).flags & GW_RECV_FULL);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_that_is_silent_gets_probes_only),
		cmocka_unit_test(forged_packets_bring_three_times_their_bytes),
		cmocka_unit_test(an_echo_opens_the_way),
		cmocka_unit_test(a_host_that_was_met_gets_data_at_once),
		cmocka_unit_test(honest_strangers_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
