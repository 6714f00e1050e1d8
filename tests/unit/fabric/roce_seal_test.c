/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealed packets. One by one: what is changed, replayed or sealed under another key is refused, counters go past the PSN and
 * past a key's life, and nothing is allocated. Then between two ends: messages arrive as they do clear, with lanes, loss,
 * reordering and duplicates, and nothing lands that comes from somebody who knows all but the keys.
 */
#include "forge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/address.h"

#define LENGTH	 1001u
#define MESSAGES 8
#define BULK	 (PAIR_MEMORY / MESSAGES)
#define MARKS	 6

static const struct seal_names names[2] = { { 0x111, 11, 0x222, 22 }, { 0x222, 22, 0x111, 11 } };
static unsigned allocations;

static void *counting_malloc(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	allocations++;
	return malloc(size);
}

static void *counting_realloc(void *memory, size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	allocations++;
	return realloc(memory, size);
}

static void counting_free(void *memory, const char *file, int line)
{
	(void)file;
	(void)line;
	free(memory);
}

static struct fabric_seal keys_of(int end)
{
	struct fabric_seal keys;

	memset(keys.tx, end ? 0x5a : 0xa5, sizeof(keys.tx));
	memset(keys.rx, end ? 0xa5 : 0x5a, sizeof(keys.rx));
	return keys;
}

static void open_seals(struct seal *seal[2])
{
	for (int end = 0; end < 2; end++) {
		struct fabric_seal keys = keys_of(end);

		assert_int_equal(seal_open(&keys, &seal[end]), 0);
		assert_int_equal(seal_connect(seal[end], &names[end]), 0);
	}
}

static void close_seals(struct seal *seal[2])
{
	seal_close(seal[0]);
	seal_close(seal[1]);
}

struct sealed {
	uint8_t bytes[LENGTH + 128];
	size_t length;
};

/* Seals a packet of `length` bytes whose first ones are the number. */
static struct sealed make(struct seal *seal, enum seal_kind kind, uint32_t lane, size_t length,
			  uint64_t number)
{
	uint8_t plain[LENGTH] = { 0 }, out[LENGTH + SEAL_EXTRA] = { 0 }, end[ROCE_ICRC_SIZE];
	struct sealed made;
	struct roce_packet packet;
	size_t headers;

	memcpy(plain, &number, sizeof(number));
	if (kind == SEAL_DATA)
		roce_uc_write_imm(&packet, 0x222, 77, 4096, 0x1234, 5, out,
				  (uint32_t)length + SEAL_EXTRA);
	else
		roce_ud_send(&packet, 0x222, 77, 22, 0x111, out, (uint32_t)length + SEAL_EXTRA);
	headers = roce_encode(&packet, made.bytes, sizeof(made.bytes));
	assert_true(seal_packet(seal, kind, lane, made.bytes, headers, plain, length, out, end));
	memcpy(made.bytes + headers, out, length + SEAL_EXTRA);
	made.length = headers + length + SEAL_EXTRA;
	memset(made.bytes + made.length, 0, packet.pad);
	made.length += packet.pad;
	memcpy(made.bytes + made.length, end, sizeof(end));
	made.length += sizeof(end);
	return made;
}

static enum seal_verdict check(struct seal *seal, enum seal_kind kind, struct sealed *made,
			       uint64_t *number, uint8_t *lane)
{
	struct roce_packet packet;
	enum seal_verdict verdict;

	if (roce_decode(made->bytes, made->length, &packet))
		return SEAL_FORGED;
	verdict = seal_check(seal, kind, made->bytes, made->length, &packet, lane);
	if (verdict == SEAL_GOOD && number)
		memcpy(number, packet.payload, sizeof(*number));
	return verdict;
}

static void changed_bytes_are_refused(void **state)
{
	struct seal *seal[2];
	struct sealed made, bad;
	uint64_t number = 0;
	uint8_t lane;

	(void)state;
	open_seals(seal);
	for (int kind = 0; kind < SEAL_KINDS; kind++) {
		for (size_t length = 61; length < 65; length++) {
			made = make(seal[0], kind, 3, length, 42);
			for (size_t i = 0; i < made.length; i++) {
				bool pad = i >= made.length - ROCE_ICRC_SIZE - (-length & 3) &&
					   i < made.length - ROCE_ICRC_SIZE;

				bad = made;
				bad.bytes[i] ^= 0x10;
				if (i != 4 && !pad) /* FECN and BECN are the network's to change */
					assert_int_not_equal(
						check(seal[1], kind, &bad, NULL, &lane), SEAL_GOOD);
			}
			bad = made;
			assert_int_not_equal(check(seal[1], !kind, &bad, NULL, &lane), SEAL_GOOD);
			assert_int_equal(check(seal[1], kind, &made, &number, &lane), SEAL_GOOD);
			assert_int_equal(number, 42);
			assert_int_equal(lane, 3);
		}
	}
	close_seals(seal);
}

/* Each direction, and each pair of queue pairs, has keys of its own. */
static void other_keys_do_not_fit(void **state)
{
	struct seal_names other = { 0x222, 22, 0x111, 12 };
	struct fabric_seal keys = keys_of(1);
	struct seal *seal[2], *third;
	struct sealed made;
	uint8_t lane;

	(void)state;
	open_seals(seal);
	assert_int_equal(seal_open(&keys, &third), 0);
	assert_int_equal(seal_connect(third, &other), 0);
	made = make(seal[0], SEAL_DATA, 0, 64, 1);
	assert_int_equal(check(third, SEAL_DATA, &made, NULL, &lane), SEAL_FORGED);
	made = make(seal[0], SEAL_DATA, 0, 64, 1);
	assert_int_equal(check(seal[0], SEAL_DATA, &made, NULL, &lane), SEAL_FORGED);
	seal_close(third);
	close_seals(seal);
}

/* Keys may be replaced until the seal is connected, which happens once: afterwards there are none left to connect with. */
static void keys_are_used_once(void **state)
{
	struct fabric_seal wrong = keys_of(0), keys = keys_of(1);
	struct seal *seal[2], *third;
	struct sealed made;
	uint8_t lane;

	(void)state;
	open_seals(seal);
	assert_int_equal(seal_open(&wrong, &third), 0);
	assert_int_equal(seal_set_keys(third, &keys), 0);
	assert_int_equal(seal_connect(third, &names[1]), 0);
	made = make(seal[0], SEAL_DATA, 0, 64, 1);
	assert_int_equal(check(third, SEAL_DATA, &made, NULL, &lane), SEAL_GOOD);
	assert_int_equal(seal_set_keys(third, &keys), -EISCONN);
	assert_int_equal(seal_connect(third, &names[1]), -EISCONN);
	made = make(seal[0], SEAL_DATA, 0, 64, 1);
	assert_int_equal(check(third, SEAL_DATA, &made, NULL, &lane), SEAL_GOOD);
	seal_close(third);
	close_seals(seal);
}

static void nothing_is_taken_twice(void **state)
{
	static const uint32_t windows[] = { SEAL_WINDOW_DATA, SEAL_WINDOW_CONTROL };
	struct seal *seal[2];
	struct sealed first, second, copy, last;
	uint8_t lane;

	(void)state;
	open_seals(seal);
	for (int kind = 0; kind < SEAL_KINDS; kind++) {
		first = make(seal[0], kind, 1, 16, 1);
		second = make(seal[0], kind, 1, 16, 1);
		/* The same data never looks the same. */
		assert_memory_not_equal(first.bytes + 32, second.bytes + 32, 16);
		copy = second;
		assert_int_equal(check(seal[1], kind, &copy, NULL, &lane), SEAL_GOOD);
		copy = second;
		assert_int_equal(check(seal[1], kind, &copy, NULL, &lane), SEAL_REPLAYED);
		/* As late as may be, and once. */
		for (uint32_t i = 2; i < windows[kind]; i++)
			last = make(seal[0], kind, 1, 16, i);
		copy = last;
		assert_int_equal(check(seal[1], kind, &copy, NULL, &lane), SEAL_GOOD);
		copy = first;
		assert_int_equal(check(seal[1], kind, &copy, NULL, &lane), SEAL_GOOD);
		copy = first;
		assert_int_equal(check(seal[1], kind, &copy, NULL, &lane), SEAL_REPLAYED);
		/* Too late, though never seen. */
		first = make(seal[0], kind, 1, 16, 1);
		seal[0]->counters[kind][1] += windows[kind] - 1;
		last = make(seal[0], kind, 1, 16, 2);
		assert_int_equal(check(seal[1], kind, &last, NULL, &lane), SEAL_GOOD);
		assert_int_equal(check(seal[1], kind, &first, NULL, &lane), SEAL_REPLAYED);
	}
	close_seals(seal);
}

/* A packet as docs/wire.md describes it, made without the code under test: data of 16 zeros on lane 6. */
static void sealed_by_the_book(uint64_t counter, const uint8_t header[32], uint8_t out[32])
{
	static const uint8_t zeros[44];
	uint8_t text[33] = "godwit seal 1:", base[64], block[16] = { 0 }, stream[44], nonce[12];
	uint8_t number[12] = { 0, 0, 0, 6 };
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	struct fabric_seal keys = keys_of(0);
	int n;

	put_be32(text + 16, names[0].own_qpn);
	put_be32(text + 20, names[0].own_qkey);
	put_be32(text + 24, names[0].peer_qpn);
	put_be32(text + 28, names[0].peer_qkey);
	text[32] = 1;
	assert_non_null(HMAC(EVP_sha512(), keys.tx, 32, text, sizeof(text), base, NULL));
	put_be64(block, counter >> 22);
	assert_true(EVP_EncryptInit_ex(ctx, EVP_aes_256_ctr(), NULL, base, block));
	assert_true(EVP_EncryptUpdate(ctx, stream, &n, zeros, sizeof(zeros)));
	put_be64(number + 4, counter);
	for (int i = 0; i < 12; i++)
		nonce[i] = stream[32 + i] ^ number[i];
	assert_true(EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, stream, nonce));
	assert_true(EVP_EncryptUpdate(ctx, NULL, &n, header, 32));
	assert_true(EVP_EncryptUpdate(ctx, out, &n, zeros, 16));
	assert_true(EVP_EncryptFinal_ex(ctx, out + 16, &n));
	assert_true(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, 16, out + 16));
	EVP_CIPHER_CTX_free(ctx);
}

static void packets_are_as_written_down(void **state)
{
	static const uint64_t counters[] = { 0, 5, (1u << 22) - 1, 1u << 22, UINT64_C(77) << 22 };
	struct seal *seal[2];
	uint8_t expected[32];

	(void)state;
	open_seals(seal);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		struct sealed made;

		seal[0]->counters[SEAL_DATA][6] = counters[i];
		made = make(seal[0], SEAL_DATA, 6, 16, 0);
		assert_int_equal(made.length, 32 + 16 + CIPHER_TAG);
		assert_int_equal(made.bytes[8] & 7, 6);
		assert_int_equal(get_be24(made.bytes + 9), counters[i] & 0xffffff);
		sealed_by_the_book(counters[i], made.bytes, expected);
		assert_memory_equal(made.bytes + 32, expected, sizeof(expected));
	}
	close_seals(seal);
}

/* The PSN wraps after 2^24 packets, keys change each 2^22, and lanes may be far apart; also around each such point, in any
 * order, and without memory being allocated. */
static void counters_go_on(void **state)
{
	static const uint64_t marks[MARKS] = { UINT64_C(1) << 22,	UINT64_C(1) << 23,
					       (UINT64_C(1) << 24),	(UINT64_C(1) << 24) * 3,
					       (UINT64_C(1) << 24) * 7, UINT64_C(1) << 40 };
	struct seal *seal[2];
	uint8_t lane;
	unsigned before;

	(void)state;
	open_seals(seal);
	before = allocations;
	for (unsigned m = 0; m < MARKS; m++) {
		struct sealed made[16];
		uint64_t number = 0;

		seal[0]->counters[SEAL_DATA][2] = marks[m] - 8;
		/* As if all but the last had been received. */
		if (marks[m] > 16)
			seal[1]->seen[SEAL_DATA][2].next = marks[m] - 16;
		for (unsigned i = 0; i < 16; i++)
			made[i] = make(seal[0], SEAL_DATA, 2, 100, i);
		for (unsigned i = 0; i < 16; i++) {
			assert_int_equal(
				check(seal[1], SEAL_DATA, &made[i * 5 % 16], &number, &lane),
				SEAL_GOOD);
			assert_int_equal(number, i * 5 % 16);
		}
		made[0] = make(seal[0], SEAL_DATA, 5, 100, m);
		assert_int_equal(check(seal[1], SEAL_DATA, &made[0], &number, &lane), SEAL_GOOD);
	}
	assert_true(before > 0);
	assert_int_equal(allocations, before);
	close_seals(seal);
}

static void pair_open_sealed(struct pair *pair, const struct pair_attr *attr, bool same_keys)
{
	struct gw_seal seal[2] = { { { 1 }, { 2 } }, { { 2 }, { 1 } } };

	if (!same_keys)
		seal[1].rx[31] = 1;
	pair_open_contexts(pair, attr);
	for (int end = 0; end < 2; end++) {
		struct gw_qp_attr qp = attr->qp;

		qp.peer_host = attr->address ? attr->address : "127.0.0.1";
		qp.seal = &seal[end];
		assert_int_equal(gw_qp_create(pair->ctx[end], &qp, &pair->qp[end]), 0);
	}
	pair_connect(pair);
}

static void carry(struct pair *pair, int end, uint64_t length, bool whole)
{
	struct gw_send *send;
	struct gw_recv *recv;

	fill_pattern(pair->memory[end], length, length);
	memset(pair->memory[!end], 0, length);
	recv = pair_recv(pair, !end, 0, length, NULL);
	send = pair_send(pair, end, 0, length, NULL);
	if (whole) {
		pair_until(pair, pair_status(recv).flags & GW_RECV_FULL);
		assert_memory_equal(pair->memory[!end], pair->memory[end], length);
	} else {
		pair_until(pair, pair_status(recv).landed >= 32);
	}
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(pair, gw_recv_test(recv) == 1 && gw_send_test(send) == 1);
	assert_int_equal(gw_recv_close(recv), 0);
	assert_int_equal(gw_send_close(send), 0);
}

static void messages_arrive(void **state)
{
	static const char *const addresses[] = { "127.0.0.1", "::1" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair_attr attr = { .address = addresses[i], .context = { .lanes = 4 } };
		struct pair pair;

		pair_open_sealed(&pair, &attr, true);
		for (uint64_t length = 1; length <= BULK; length = length * 7 + 1) {
			carry(&pair, 0, length, true);
			carry(&pair, 1, length, true);
		}
		for (int end = 0; end < 2; end++) {
			assert_int_equal(counter(pair.ctx[end], "drop_seal"), 0);
			assert_int_equal(counter(pair.ctx[end], "drop_replay"), 0);
			assert_int_equal(counter(pair.ctx[end], "qps_sealed"), 1);
		}
		pair_close(&pair);
	}
}

/* Packets lost, late and twice: a copy is a replay. */
static void a_poor_path_is_no_forger(void **state)
{
	struct gw_faults faults = { .drop = 0.05, .duplicate = 0.1, .reorder = 0.1, .seed = 3 };
	struct pair_attr attr = { .context = { .lanes = 3 }, .faults = &faults };
	struct pair pair;

	(void)state;
	pair_open_sealed(&pair, &attr, true);
	for (int i = 0; i < MESSAGES; i++)
		carry(&pair, i % 2, BULK, false);
	for (int end = 0; end < 2; end++) {
		assert_int_equal(counter(pair.ctx[end], "drop_seal"), 0);
		assert_true(counter(pair.ctx[end], "drop_replay") > 10);
		assert_true(counter(pair.ctx[end], "landed_packets") > 100);
	}
	pair_close(&pair);
}

/* Keys that are known only when the peer is. */
static void keys_come_later(void **state)
{
	static const struct gw_seal nobody = { { 9 }, { 9 } };
	static const struct gw_seal seal[2] = { { { 1 }, { 2 } }, { { 2 }, { 1 } } };
	struct gw_qp_attr attr = { .seal = &nobody, .peer_host = "127.0.0.1" };
	struct gw_qp *clear;
	struct pair pair;

	(void)state;
	pair_open_contexts(&pair, &(struct pair_attr){ 0 });
	assert_int_equal(gw_qp_create(pair.ctx[0], NULL, &clear), 0);
	assert_int_equal(gw_qp_seal(clear, &seal[0]), -EINVAL);
	assert_int_equal(gw_qp_close(clear), 0);
	for (int end = 0; end < 2; end++) {
		assert_int_equal(gw_qp_create(pair.ctx[end], &attr, &pair.qp[end]), 0);
		assert_int_equal(gw_qp_seal(pair.qp[end], NULL), -EINVAL);
		assert_int_equal(gw_qp_seal(pair.qp[end], &seal[end]), 0);
	}
	pair_connect(&pair);
	assert_int_equal(gw_qp_seal(pair.qp[0], &seal[0]), -EISCONN);
	carry(&pair, 0, LENGTH, true);
	assert_int_equal(counter(pair.ctx[1], "drop_seal"), 0);
	pair_close(&pair);
}

static void both_seal_or_none(void **state)
{
	struct gw_seal seal = { { 1 }, { 2 } };
	struct gw_qp_attr attr = { .seal = &seal };
	struct fabric_group_attr clear = { .family = 4,
					   .ip = { 239, 1, 2, 3 },
					   .split = { 10, 18, 4 } };
	struct fabric_group *group;
	struct gw_qp_info info[2];
	struct pair pair;

	(void)state;
	pair_open_contexts(&pair, &(struct pair_attr){ 0 });
	assert_int_equal(gw_qp_create(pair.ctx[0], &attr, &pair.qp[0]), 0);
	assert_int_equal(gw_qp_create(pair.ctx[1], NULL, &pair.qp[1]), 0);
	for (int end = 0; end < 2; end++)
		assert_int_equal(gw_qp_info(pair.qp[end], &info[end]), 0);
	assert_int_equal(pair.ctx[0]->fabric->ops->group->join(pair.ctx[0]->fabric, &clear, &group),
			 -EPERM);
	for (int end = 0; end < 2; end++) {
		assert_int_equal(gw_qp_connect(pair.qp[end], &info[!end]), -EPERM);
		assert_non_null(strstr(gw_context_error(pair.ctx[end]), "seal"));
	}
	pair_close(&pair);
}

/* Neither is a NIC talked to in the clear, nor are keys taken on a fabric that cannot use them. */
static void a_nic_cannot_seal(void **state)
{
	struct roce_address nic = { .kind = ADDRESS_NIC,
				    .family = 4,
				    .port = ADDRESS_PORT,
				    .ip = { 127, 0, 0, 1 },
				    .control_qpn = 0x333,
				    .qkey = 33,
				    .mode = ADDRESS_UC,
				    .lanes = 1,
				    .path_mtu = 1024,
				    .qpn = { 0x334 } };
	struct gw_seal seal = { { 1 }, { 2 } };
	struct gw_qp_attr attr = { .seal = &seal };
	uint8_t bytes[FABRIC_ADDRESS_MAX];
	struct fabric *fabric;
	struct pair pair;
	size_t length = address_encode(&nic, bytes);

	(void)state;
	pair_open_contexts(&pair, &(struct pair_attr){ 0 });
	for (int end = 0; end < 2; end++)
		assert_int_equal(gw_qp_create(pair.ctx[end], &attr, &pair.qp[end]), 0);
	fabric = pair.ctx[0]->fabric;
	endpoint_of(fabric)->local.v4.sin_port = htons(ADDRESS_PORT); /* the only one for NICs */
	assert_int_equal(fabric->ops->qp_connect(pair.qp[0]->fabric_qp, bytes, length, 1024),
			 -EPERM);
	assert_non_null(strstr(fabric->error, "this end seals its packets and the peer does not"));
	gw_qp_close(pair.qp[1]);
	pair.ctx[1]->fabric->caps.seal_extra = 0;
	assert_int_equal(gw_qp_create(pair.ctx[1], &attr, &pair.qp[1]), -ENOTSUP);
	assert_non_null(strstr(gw_context_error(pair.ctx[1]), "between user-space ends only"));
	assert_int_equal(gw_qp_create(pair.ctx[1], NULL, &pair.qp[1]), 0);
	pair_close(&pair);
}

/* Somebody who knows every number but the keys: nothing lands, nothing is heard, and the message still arrives. */
static void forgers_do_nothing(void **state)
{
	struct pair_attr attr = { .qp = { .peer_timeout_ns = 60000000000 } };
	uint8_t bytes[FORGE_MAX], message[64];
	static const uint8_t evil[LENGTH];
	struct control_writer writer;
	struct control_header header;
	struct roce_packet packet;
	struct forger forger;
	struct gw_recv *recv;
	struct pair pair;
	uint64_t dropped = 0;
	size_t length;

	(void)state;
	pair_open_sealed(&pair, &attr, true);
	carry(&pair, 0, LENGTH, true);
	memset(pair.memory[1], 0xa5, LENGTH);
	recv = pair_recv(&pair, 1, 0, LENGTH, NULL);
	pair_until(&pair, pair.qp[1]->rx.grants_acked == pair.qp[1]->rx.granted);
	forger_open(&forger, "127.0.0.1", pair.qp[1]);
	header = forge_header(&forger);
	control_begin(&writer, message, sizeof(message), CONTROL_CLOSE, &header);
	control_put_close(&writer, &(struct control_close){ 0 });
	length = control_end(&writer);
	for (int i = 0; i < 100; i++) {
		forge_data(&forger, recv, 0, evil, &packet);
		packet.psn = (uint32_t)i;
		forge_send(&forger, bytes, forge(&forger, &packet, bytes));
		forge_control(&forger, message, length, &packet);
		packet.psn = (uint32_t)i;
		forge_send(&forger, bytes, forge(&forger, &packet, bytes));
		roce_cnp(&packet, roce_qp(pair.qp[1]->fabric_qp)->qpn);
		forge_send(&forger, bytes, forge(&forger, &packet, bytes));
		pair_step(&pair);
	}
	pair_until(&pair, (dropped = counter(pair.ctx[1], "drop_seal") +
				     counter(pair.ctx[1], "drop_replay")) >= 200);
	assert_int_equal(pair_status(recv).landed, 0);
	for (unsigned i = 0; i < LENGTH; i++)
		assert_int_equal(pair.memory[1][i], 0xa5);
	assert_int_equal(gw_qp_status(pair.qp[1]), 0);
	fill_pattern(pair.memory[0], LENGTH, 9);
	pair_send(&pair, 0, 0, LENGTH, NULL);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_FULL);
	assert_memory_equal(pair.memory[1], pair.memory[0], LENGTH);
	forger_close(&forger);
	pair_close(&pair);
	/* Nor does a peer with another key. */
	pair_open_sealed(&pair, &attr, false);
	recv = pair_recv(&pair, 1, 0, LENGTH, NULL);
	pair_send(&pair, 0, 0, LENGTH, NULL);
	pair_until(&pair, counter(pair.ctx[1], "drop_seal") > 3);
	assert_int_equal(pair_status(recv).landed, 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_bytes_are_refused),
		cmocka_unit_test(other_keys_do_not_fit),
		cmocka_unit_test(keys_are_used_once),
		cmocka_unit_test(nothing_is_taken_twice),
		cmocka_unit_test(counters_go_on),
		cmocka_unit_test(packets_are_as_written_down),
		cmocka_unit_test(messages_arrive),
		cmocka_unit_test(a_poor_path_is_no_forger),
		cmocka_unit_test(keys_come_later),
		cmocka_unit_test(both_seal_or_none),
		cmocka_unit_test(a_nic_cannot_seal),
		cmocka_unit_test(forgers_do_nothing),
	};

	if (!CRYPTO_set_mem_functions(counting_malloc, counting_realloc, counting_free))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
