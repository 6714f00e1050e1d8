/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of contexts, over the loopback interface: what arrives where, timers, room, leaving, misuse. */
#include "pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/group.h>

#include "message/state.h"

#define MEMBERS 3
#define LENGTH	500u
#define COUNT	64u
#define SOON_NS UINT64_C(8000000000)

struct member {
	struct gw_context *ctx;
	struct gw_mr *mr;
	struct gw_group *group;
	uint8_t *memory;
	unsigned heard, timers, rooms;
	uint32_t last_packet;
	uint32_t last_source;
	/* leave as soon as something is heard */
	bool leaves;
	/* and join again at once */
	bool rejoins;
};

static struct member members[MEMBERS];
static uint64_t token;

static struct gw_group_attr attr_of(struct member *member);

static void packet(struct gw_group *group, void *arg, const struct gw_group_packet *packet,
		   uint64_t now)
{
	struct member *member = arg;

	assert_ptr_equal(group, member->group);
	assert_true(now <= gw_now_ns(member->ctx));
	assert_int_equal(packet->slot, 900);
	assert_int_equal(packet->user, packet->packet % 16);
	assert_int_equal(packet->length, LENGTH - packet->packet % 4);
	for (uint32_t i = 0; i < packet->length; i++)
		assert_int_equal(((const uint8_t *)packet->data)[i],
				 (uint8_t)(packet->packet + 7 * i));
	member->heard++;
	member->last_packet = packet->packet;
	member->last_source = packet->source;
	if (member->leaves) {
		assert_int_equal(gw_group_leave(group), 0);
		member->group = NULL;
	}
	if (member->rejoins) {
		struct gw_group_attr attr = attr_of(member);

		member->rejoins = false;
		assert_int_equal(gw_group_join(member->ctx, &attr, &member->group), 0);
		assert_ptr_not_equal(group, member->group);
	}
}

static void timer(struct gw_group *group, void *arg, uint64_t now)
{
	struct member *member = arg;

	assert_ptr_equal(group, member->group);
	assert_true(now > 0);
	member->timers++;
}

static void room(struct gw_group *group, void *arg, uint64_t now)
{
	struct member *member = arg;

	(void)now;
	assert_ptr_equal(group, member->group);
	member->rooms++;
}

static const struct gw_group_handler handler = { .packet = packet, .timer = timer, .room = room };

static struct gw_group_attr attr_of(struct member *member)
{
	return (struct gw_group_attr){ .token = token,
				       .port = (uint16_t)(20000 + token % 10000),
				       .handler = &handler,
				       .arg = member };
}

static int setup(void **state)
{
	struct gw_context_attr context = { .fabric = "roce:127.0.0.1@0" };

	(void)state;
	memset(members, 0, sizeof(members));
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct member *member = &members[i];
		struct gw_group_attr attr;

		assert_int_equal(gw_context_open(&context, &member->ctx), 0);
		if (!i)
			assert_int_equal(gw_group_token(member->ctx, &token), 0);
		attr = attr_of(member);
		member->memory = calloc(COUNT, LENGTH);
		assert_int_equal(gw_mr_register(member->ctx, member->memory, (size_t)COUNT * LENGTH,
						&member->mr),
				 0);
		if (gw_group_join(member->ctx, &attr, &member->group))
			fail_msg("%s", gw_context_error(member->ctx));
		assert_true(gw_group_payload(member->ctx) > (int)LENGTH);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (i != 1 && members[i].group) /* else the context's end is its end */
			assert_int_equal(gw_group_leave(members[i].group), 0);
		assert_int_equal(gw_context_close(members[i].ctx), 0);
		free(members[i].memory);
	}
	return 0;
}

static int send_some(struct member *member, uint32_t first, unsigned count)
{
	struct gw_group_write writes[COUNT];

	for (unsigned i = 0; i < count; i++) {
		uint8_t *at = member->memory + (size_t)i * LENGTH;

		writes[i] = (struct gw_group_write){ .data = at,
						     .mr = member->mr,
						     .length = LENGTH - (first + i) % 4,
						     .packet = first + i,
						     .user = (first + i) % 16 };
		for (unsigned b = 0; b < LENGTH; b++)
			at[b] = (uint8_t)(first + i + 7 * b);
	}
	return gw_group_send(member->group, 900, writes, count);
}

/* Moves all members until one of them has heard so much, or for some time. */
static void run(unsigned member, unsigned heard)
{
	uint64_t until = gw_now_ns(members[0].ctx) + SOON_NS;

	while (members[member].heard < heard && gw_now_ns(members[0].ctx) < until)
		for (unsigned i = 0; i < MEMBERS; i++)
			gw_progress(members[i].ctx);
}

static void every_other_member_hears(void **state)
{
	uint32_t source;

	(void)state;
	assert_int_equal(send_some(&members[0], 100, COUNT), (int)COUNT);
	assert_int_equal(gw_group_unsent(members[0].group), 0);
	run(1, COUNT);
	run(2, COUNT);
	assert_int_equal(members[1].heard, COUNT);
	assert_int_equal(members[2].heard, COUNT);
	assert_int_equal(members[1].last_packet, 100 + COUNT - 1);
	assert_int_equal(members[0].heard, 0);
	source = members[1].last_source;
	assert_int_equal(source, members[2].last_source);
	assert_int_equal(send_some(&members[2], 5, 1), 1);
	run(0, 1);
	assert_int_equal(members[0].heard, 1);
	assert_int_not_equal(members[0].last_source, source);
}

static void the_timer_fires_once(void **state)
{
	uint64_t now = gw_now_ns(members[0].ctx);

	(void)state;
	assert_int_equal(gw_group_timer(members[0].group, now + 2000000), 0);
	assert_int_equal(gw_group_timer(members[1].group, now + 1000000), 0);
	assert_int_equal(gw_group_timer(members[1].group, UINT64_MAX), 0);
	while (gw_now_ns(members[0].ctx) < now + 10000000)
		gw_progress(members[0].ctx);
	for (unsigned i = 0; i < MEMBERS; i++)
		gw_progress(members[i].ctx);
	assert_int_equal(members[0].timers, 1);
	assert_int_equal(members[1].timers, 0);
}

/* Packets that the same turn found are of the old membership. */
static void joining_again_in_a_callback_is_a_new_membership(void **state)
{
	uint64_t until;

	(void)state;
	members[1].leaves = members[1].rejoins = true;
	assert_int_equal(send_some(&members[0], 0, COUNT), (int)COUNT);
	run(2, COUNT);
	run(1, 1);
	members[1].leaves = false;
	until = gw_now_ns(members[1].ctx) + 20000000;
	while (gw_now_ns(members[1].ctx) < until)
		gw_progress(members[1].ctx);
	assert_int_equal(members[1].heard, 1);
	assert_int_equal(pool_used(&members[1].ctx->groups.pool), 1);
}

static void leaving_in_a_callback_ends_all_calls(void **state)
{
	struct gw_group_attr attr = attr_of(&members[1]);

	(void)state;
	members[1].leaves = true;
	assert_int_equal(send_some(&members[0], 0, COUNT), (int)COUNT);
	run(2, COUNT);
	run(1, 1);
	assert_int_equal(members[1].heard, 1);
	/* A member again, of the same group. */
	members[1].leaves = false;
	assert_int_equal(gw_group_join(members[1].ctx, &attr, &members[1].group), 0);
	members[1].heard = 0;
	assert_int_equal(send_some(&members[0], 7, 3), 3);
	run(1, 3);
	assert_int_equal(members[1].heard, 3);
}

/* More than the bucket of the fabric's rate limit holds is refused in part, and `room` tells when to go on. */
static void a_refused_send_is_told_of_room(void **state)
{
	unsigned sent = 0, offered = 0;
	uint64_t until = gw_now_ns(members[0].ctx) + SOON_NS;

	(void)state;
	while (offered == sent && gw_now_ns(members[0].ctx) < until) {
		int taken = send_some(&members[0], sent % 4096, COUNT);

		assert_true(taken >= 0);
		sent += (unsigned)taken;
		offered += COUNT;
	}
	assert_true(sent < offered);
	assert_int_equal(members[0].rooms, 0);
	while (!members[0].rooms && gw_now_ns(members[0].ctx) < until)
		gw_progress(members[0].ctx);
	assert_int_equal(members[0].rooms, 1);
	gw_progress(members[0].ctx);
	assert_int_equal(members[0].rooms, 1);
}

static void misuse_is_refused(void **state)
{
	struct member *member = &members[0];
	struct gw_group_attr attr = attr_of(member);
	struct gw_group_write write = { .data = member->memory, .mr = member->mr, .length = 10 };
	struct gw_group *group = NULL;

	(void)state;
	assert_int_equal(gw_group_payload(NULL), -EINVAL);
	assert_int_equal(gw_group_join(NULL, &attr, &group), -EINVAL);
	attr.reserved[3] = 1;
	assert_int_equal(gw_group_join(member->ctx, &attr, &group), -EINVAL);
	attr = attr_of(member);
	attr.family = 4; /* and 0.0.0.0 */
	assert_int_equal(gw_group_join(member->ctx, &attr, &group), -EINVAL);
	attr.family = 6;
	attr.ip[0] = 0xff;
	assert_int_equal(gw_group_join(member->ctx, &attr, &group), -EAFNOSUPPORT);
	attr = attr_of(member);
	attr.slot_bits = 20;
	attr.packet_bits = 20;
	assert_int_equal(gw_group_join(member->ctx, &attr, &group), -EINVAL);
	write.length = 0;
	assert_int_equal(gw_group_send(member->group, 0, &write, 1), -EINVAL);
	write.length = (uint32_t)gw_group_payload(member->ctx) + 1;
	assert_int_equal(gw_group_send(member->group, 0, &write, 1), -EINVAL);
	write.length = 10;
	write.data = member->memory - 1;
	assert_int_equal(gw_group_send(member->group, 0, &write, 1), -EFAULT);
	assert_int_equal(gw_group_send(NULL, 0, &write, 1), -EINVAL);
	assert_int_equal(gw_group_leave(NULL), -EINVAL);
	assert_int_equal(gw_group_leave(member->group), 0);
	assert_int_equal(gw_group_leave(member->group), -ESTALE);
	assert_int_equal(gw_group_timer(member->group, 1), -ESTALE);
	assert_int_equal(gw_group_send(member->group, 0, &write, 1), -ESTALE);
	member->group = NULL;
	assert_int_equal(pool_used(&member->ctx->groups.pool), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_other_member_hears, setup, teardown),
		cmocka_unit_test_setup_teardown(the_timer_fires_once, setup, teardown),
		cmocka_unit_test_setup_teardown(leaving_in_a_callback_ends_all_calls, setup,
						teardown),
		cmocka_unit_test_setup_teardown(joining_again_in_a_callback_is_a_new_membership,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_refused_send_is_told_of_room, setup, teardown),
		cmocka_unit_test_setup_teardown(misuse_is_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
