/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory behind a dma-buf: the whole message layer on a device that the test controls. The addresses are such that whoever
 * touches them with the processor dies of it.
 */
#include "../message/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_verbs.h"

#define DEVICE_BYTES (1 << 20)
#define HALF	     (DEVICE_BYTES / 2) /* each end's */
#define ANY_FD	     0			/* the fake looks at none */

struct device_pair {
	struct pair pair;
	uint8_t *addr; /* of the device memory, for requests */
	struct gw_mr *mr[2];
	unsigned sent, received;
};

static const struct pair_attr on_verbs = { .context = { .fabric = "verbs:fake0" } };
static uint8_t bytes_of_device[DEVICE_BYTES];

static void open_device_pair(struct device_pair *device)
{
	memset(device, 0, sizeof(*device));
	pair_open(&device->pair, &on_verbs);
	device->addr = mmap(NULL, DEVICE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(device->addr, MAP_FAILED);
	for (int end = 0; end < 2; end++)
		assert_int_equal(gw_mr_register_dmabuf(device->pair.ctx[end], ANY_FD,
						       (uint64_t)end * HALF, HALF,
						       device->addr + end * HALF, &device->mr[end]),
				 0);
}

/* The host's memory is still registered: that goes with the context. */
static void close_verbs_pair(struct pair *pair)
{
	pair_close(pair);
	assert_int_equal(fake.objects, 0);
	assert_false(fake.misused);
}

static void close_device_pair(struct device_pair *device)
{
	for (int end = 0; end < 2; end++)
		assert_int_equal(gw_mr_deregister(device->mr[end]), 0);
	close_verbs_pair(&device->pair);
	munmap(device->addr, DEVICE_BYTES);
}

static void ended(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	assert_int_equal(result->status, 0);
	++*(unsigned *)arg;
}

/* To the device memory of end 1, from the host's or the device's of end 0. */
static void transfer(struct device_pair *device, bool from_device, uint64_t length)
{
	struct pair *pair = &device->pair;
	struct gw_transfer_attr to = { .addr = device->addr + HALF,
				       .length = HALF,
				       .mr = device->mr[1],
				       .done = ended,
				       .arg = &device->received };
	struct gw_transfer_attr from = { .addr = from_device ? device->addr : pair->memory[0],
					 .length = length,
					 .mr = from_device ? device->mr[0] : pair->mr[0],
					 .done = ended,
					 .arg = &device->sent };
	unsigned sent = device->sent + 1, received = device->received + 1;
	struct gw_send *send;
	struct gw_recv *recv;

	fill_pattern(from_device ? bytes_of_device : pair->memory[0], length, length);
	memset(bytes_of_device + HALF, 0, HALF);
	assert_int_equal(gw_transfer_recv(pair->qp[1], &gw_selective_repeat, &to, &recv), 0);
	assert_int_equal(gw_transfer_send(pair->qp[0], &gw_selective_repeat, &from, &send), 0);
	pair_until(pair, device->sent == sent && device->received == received);
	assert_memory_equal(bytes_of_device + HALF, from_device ? bytes_of_device : pair->memory[0],
			    length);
	gw_send_close(send);
	gw_recv_close(recv);
}

static void untouched(void **state)
{
	const uint64_t lengths[] = { 1, 512, 1024, 100000, HALF };
	struct device_pair device;

	(void)state;
	open_device_pair(&device);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		transfer(&device, true, lengths[i]);
	assert_int_equal(counter(device.pair.ctx[1], "drop_unreachable"), 0);
	close_device_pair(&device);
}

/* What came inside a control datagram cannot be put there, and comes again as a packet. */
static void told(void **state)
{
	struct device_pair device;

	(void)state;
	open_device_pair(&device);
	transfer(&device, false, 512);
	assert_true(counter(device.pair.ctx[1], "drop_unreachable") >= 1);
	assert_true(counter(device.pair.ctx[1], "rx_data_packets") >= 1);
	transfer(&device, false, 100000);
	close_device_pair(&device);
}

static void refused(void **state)
{
	const struct {
		int error, returned;
		const char *why;
	} cases[] = {
		{ EOPNOTSUPP, -ENOTSUP, "takes none" },
		{ EPROTONOSUPPORT, -ENOTSUP, "takes none" },
		{ ENOSYS, -ENOTSUP, "takes none" },
		{ EBADF, -EBADF, "not open" },
		{ EINVAL, -EINVAL, "no dma-buf" },
		{ ENOMEM, -ENOMEM, "Cannot allocate memory" },
	};
	struct gw_mr *mr = NULL;
	struct pair pair;
	char byte;

	(void)state;
	pair_open(&pair, &on_verbs);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.dmabuf_error = cases[i].error;
		assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], ANY_FD, 0, 1, &byte, &mr),
				 cases[i].returned);
		assert_non_null(
			strstr(gw_context_error(pair.ctx[0]), "fake0 cannot register a dma-buf"));
		assert_non_null(strstr(gw_context_error(pair.ctx[0]), cases[i].why));
	}
	fake.dmabuf_error = 0;
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], ANY_FD, DEVICE_BYTES, 1, &byte, &mr),
			 -EINVAL);
	assert_null(mr);
	close_verbs_pair(&pair);
}

/* With datagrams the processor places packets, whatever the device could register. */
static void refused_with_datagrams(void **state)
{
	struct pair_attr attr = { .context = { .fabric = "verbs:fake0,ud" } };
	struct gw_mr *mr = NULL;
	struct pair pair;
	char byte;

	(void)state;
	pair_open(&pair, &attr);
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], ANY_FD, 0, 1, &byte, &mr), -ENOTSUP);
	assert_non_null(strstr(gw_context_error(pair.ctx[0]), "datagrams"));
	assert_null(mr);
	close_verbs_pair(&pair);
}

static int begin(void **state)
{
	(void)state;
	fake_reset();
	fake.device_memory = bytes_of_device;
	fake.device_length = DEVICE_BYTES;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(untouched, begin),
		cmocka_unit_test_setup(told, begin),
		cmocka_unit_test_setup(refused, begin),
		cmocka_unit_test_setup(refused_with_datagrams, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
