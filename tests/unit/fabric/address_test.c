/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses as they travel, between user-space ends and NICs; and what an end says to one it cannot talk to. */
#include "../message/pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/address.h"
#include "fabric/open.h"
#include "fabric/roce/endpoint.h"

static const struct roce_address nic = {
	.kind = ADDRESS_NIC,
	.family = 4,
	.port = ADDRESS_PORT,
	.ip = { 127, 0, 0, 9 },
	.control_qpn = 0x345678,
	.qkey = 0x12345678,
	.mode = ADDRESS_UC,
	.lanes = 3,
	.path_mtu = 4096,
	.qpn = { 0x111111, 0x222222, 0x333333 },
};

static void there_and_back(void **state)
{
	uint8_t bytes[FABRIC_ADDRESS_MAX];
	struct roce_address other = nic, out;

	(void)state;
	assert_int_equal(address_encode(&nic, bytes), ADDRESS_NIC_SIZE);
	assert_int_equal(address_decode(bytes, sizeof(bytes), &out), 0);
	assert_memory_equal(&out, &nic, sizeof(out));
	other.family = 6;
	memset(other.ip, 0x5a, sizeof(other.ip));
	other.lanes = ADDRESS_LANES;
	for (unsigned i = 0; i < ADDRESS_LANES; i++)
		other.qpn[i] = 0xfedc00 + i;
	address_encode(&other, bytes);
	assert_int_equal(address_decode(bytes, sizeof(bytes), &out), 0);
	assert_memory_equal(&out, &other, sizeof(out));
}

static void nonsense(void **state)
{
	static const struct {
		unsigned offset;
		uint8_t value;
		int error;
	} changes[] = {
		{ 0, 0, -EPROTONOSUPPORT },  { 0, 3, -EPROTONOSUPPORT },
		{ 1, 5, -EINVAL },	     { 1, 0, -EINVAL },
		{ 36, 0, -EPROTONOSUPPORT }, { 36, 3, -EPROTONOSUPPORT },
		{ 37, 0, -EINVAL },	     { 37, 9, -EINVAL },
		{ 3, 0xb8, -EINVAL },	     { 38, 0, -EINVAL },
	};
	uint8_t bytes[FABRIC_ADDRESS_MAX];
	struct roce_address out;

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		address_encode(&nic, bytes);
		bytes[changes[i].offset] = changes[i].value;
		if (address_decode(bytes, sizeof(bytes), &out) != changes[i].error)
			fail_msg("byte %u = %u: %d", changes[i].offset, changes[i].value,
				 address_decode(bytes, sizeof(bytes), &out));
	}
	address_encode(&nic, bytes);
	for (size_t length = 0; length < ADDRESS_NIC_SIZE; length++)
		assert_int_equal(address_decode(bytes, length, &out), -EINVAL);
}

/* What a user-space end gives away can be read as an address, too. */
static void of_a_socket(void **state)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	uint8_t bytes[FABRIC_ADDRESS_MAX];
	struct roce_address out;
	struct fabric *fabric;
	struct fabric_qp *qp;
	size_t length;

	(void)state;
	assert_int_equal(fabric_open("roce:127.0.0.1@0", NULL, &fabric), 0);
	assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qp), 0);
	length = fabric->ops->qp_address(qp, bytes);
	assert_int_equal(address_decode(bytes, length, &out), 0);
	assert_int_equal(out.kind, ADDRESS_USER_SPACE);
	assert_int_equal(out.mode, ADDRESS_UC);
	assert_int_equal(out.lanes, 1);
	assert_int_equal(out.flags, ADDRESS_TAKES_UD);
	assert_int_equal(out.qpn[0], roce_qp(qp)->qpn);
	assert_int_equal(out.control_qpn, roce_qp(qp)->qpn);
	assert_int_equal(out.qkey, roce_qp(qp)->qkey);
	assert_memory_equal(out.ip, ((uint8_t[4]){ 127, 0, 0, 1 }), 4);
	fabric->ops->qp_destroy(qp);
	fabric->ops->close(fabric);
}

static int connect_to(const char *name, const struct roce_address *address, char error[192],
		      struct roce_qp *seen)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	uint8_t bytes[FABRIC_ADDRESS_MAX];
	struct fabric *fabric;
	struct fabric_qp *qp;
	int result;

	result = fabric_open(name, NULL, &fabric);
	if (result)
		return result;
	assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qp), 0);
	result = fabric->ops->qp_connect(qp, bytes, address_encode(address, bytes), 1024);
	strcpy(error, fabric->error);
	*seen = *roce_qp(qp);
	fabric->ops->qp_destroy(qp);
	fabric->ops->close(fabric);
	return result;
}

static void socket_to_nic(void **state)
{
	struct roce_address peer = nic;
	struct roce_qp seen;
	char error[192];
	int result;

	(void)state;
	assert_int_equal(connect_to("roce:127.0.0.1@0", &nic, error, &seen), -EPROTONOSUPPORT);
	assert_non_null(strstr(error, "4791"));
	result = connect_to("roce:127.0.0.76", &nic, error, &seen);
	if (result == -EADDRINUSE)
		skip(); /* a NIC or the kernel's soft-RoCE has the port */
	assert_int_equal(result, 0);
	assert_true(seen.peer_nic);
	assert_int_equal(seen.peer_max_id, 65535);
	assert_false(seen.peer_ud);
	assert_int_equal(seen.peer_qpn, 0x111111);
	assert_int_equal(seen.peer_control_qpn, 0x345678);
	peer.mode = ADDRESS_UD;
	assert_int_equal(connect_to("roce:127.0.0.76", &peer, error, &seen), 0);
	assert_true(seen.peer_ud);
	assert_int_equal(seen.peer_lanes[2], 0x333333);
	assert_int_equal(seen.peer_lanes[3], 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(nonsense),
		cmocka_unit_test(of_a_socket),
		cmocka_unit_test(socket_to_nic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
