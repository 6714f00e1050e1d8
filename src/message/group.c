/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups: the fabric's, for those above the message layer. A group has no state but its membership; what packets
 * mean, their pace and their repair are its owner's.
 */
#include <errno.h>
#include <string.h>

#include "base/zero.h"
#include "message/group.h"
#include "message/state.h"

/* Packets handed to the fabric in one call. */
#define BATCH	 32
#define FAMILY_4 4
#define FAMILY_6 6

int context_groups_open(struct gw_context *ctx)
{
	list_init(&ctx->groups.refused);
	list_init(&ctx->groups.left);
	return pool_init(&ctx->groups.pool, sizeof(struct gw_group), GW_GROUPS_MAX);
}

void context_groups_close(struct gw_context *ctx)
{
	pool_destroy(&ctx->groups.pool);
}

static bool is_member(const struct gw_group *group)
{
	return group && group->ctx && pool_owns_live(&group->ctx->groups.pool, group) &&
	       group->fabric_group;
}

int gw_group_payload(const struct gw_context *ctx)
{
	if (!ctx)
		return -EINVAL;
	if (!ctx->fabric->ops->group || !ctx->fabric->caps.max_group)
		return -ENOTSUP;
	return (int)ctx->fabric->caps.max_group;
}

int gw_group_token(struct gw_context *ctx, uint64_t *out)
{
	uint64_t token;
	int error;

	if (!ctx || !out)
		return -EINVAL;
	error = ctx->fabric->ops->entropy(ctx->fabric, &token, sizeof(token));
	if (!error)
		*out = token;
	return error;
}

/* The address that a token stands for: administratively scoped (239.0.0.0/8), or transient and of the site (ff15::/16). The key
 * has bits of the token that the address has not. */
static void derive(struct fabric_group_attr *attr, uint64_t token, uint8_t family)
{
	attr->family = family;
	attr->qkey = (uint32_t)(token >> 33);
	memset(attr->ip, 0, sizeof(attr->ip));
	if (family == FAMILY_4) {
		attr->ip[0] = 239;
		attr->ip[1] = (uint8_t)(token >> 16);
		attr->ip[2] = (uint8_t)(token >> 8);
		attr->ip[3] = (uint8_t)token;
	} else {
		attr->ip[0] = 0xff;
		attr->ip[1] = 0x15;
		for (int i = 0; i < 8; i++)
			attr->ip[8 + i] = (uint8_t)(token >> (56 - 8 * i));
	}
}

static int join(struct gw_context *ctx, struct gw_group *group, const struct gw_group_attr *from)
{
	struct fabric_group_attr attr = { .user = group,
					  .family = from->family,
					  .port = from->port,
					  .qkey = from->qkey,
					  .split = group->split };
	int error;

	memcpy(attr.ip, from->ip, sizeof(attr.ip));
	if (from->family)
		return ctx->fabric->ops->group->join(ctx->fabric, &attr, &group->fabric_group);
	derive(&attr, from->token, FAMILY_4);
	error = ctx->fabric->ops->group->join(ctx->fabric, &attr, &group->fabric_group);
	if (error != -EAFNOSUPPORT)
		return error;
	derive(&attr, from->token, FAMILY_6);
	return ctx->fabric->ops->group->join(ctx->fabric, &attr, &group->fabric_group);
}

static struct fabric_split split_of(const struct gw_group_attr *attr)
{
	struct fabric_split split = { 10, 18, 4 };

	if (attr->slot_bits || attr->packet_bits || attr->user_bits)
		split = (struct fabric_split){ attr->slot_bits, attr->packet_bits,
					       attr->user_bits };
	return split;
}

int gw_group_join(struct gw_context *ctx, const struct gw_group_attr *attr, struct gw_group **out)
{
	struct gw_group *group;
	int error;

	if (!ctx || !attr || !out || !array_is_zero(attr->reserved) || attr->reserved16 ||
	    attr->reserved32)
		return -EINVAL;
	error = gw_group_payload(ctx);
	if (error < 0)
		return error;
	group = pool_get(&ctx->groups.pool);
	if (!group)
		return -ENOBUFS;
	group->ctx = ctx;
	group->handler = attr->handler;
	group->arg = attr->arg;
	group->timer.kind = TIMER_GROUP;
	group->split = split_of(attr);
	list_init(&group->link);
	error = join(ctx, group, attr);
	if (error) {
		pool_put(&ctx->groups.pool, group);
		return error;
	}
	*out = group;
	return 0;
}

int gw_group_leave(struct gw_group *group)
{
	struct gw_context *ctx;

	if (!group)
		return -EINVAL;
	if (!is_member(group))
		return -ESTALE;
	ctx = group->ctx;
	timer_set(ctx, &group->timer, NEVER);
	ctx->fabric->ops->group->leave(group->fabric_group);
	group->fabric_group = NULL;
	list_del(&group->link);
	if (ctx->busy)
		list_add_tail(&ctx->groups.left, &group->link);
	else
		pool_put(&ctx->groups.pool, group);
	return 0;
}

static int check(const struct gw_group *group, const struct gw_group_write *write)
{
	const struct gw_context *ctx = group->ctx;

	if (!write->data || !write->length || write->length > ctx->fabric->caps.max_group)
		return -EINVAL;
	return mr_covers(write->mr, ctx, write->data, write->length) ? 0 : -EFAULT;
}

/* Hands over up to BATCH packets; returns how many were taken. */
static int send_batch(struct gw_group *group, uint32_t slot, const struct gw_group_write *writes,
		      unsigned count)
{
	struct fabric *fabric = group->ctx->fabric;
	struct fabric_write batch[BATCH];
	int taken;

	for (unsigned i = 0; i < count; i++)
		batch[i] = (struct fabric_write){ .data = writes[i].data,
						  .mr = writes[i].mr->fabric_mr,
						  .length = writes[i].length,
						  .packet = writes[i].packet,
						  .user = writes[i].user };
	taken = fabric->ops->group->send(group->fabric_group, slot, batch, count);
	if (taken > 0 && !fabric->caps.copies)
		group->unsent += (uint32_t)taken;
	return taken;
}

int gw_group_send(struct gw_group *group, uint32_t slot, const struct gw_group_write *writes,
		  unsigned count)
{
	unsigned done = 0;
	int error;

	if (!group || !writes)
		return -EINVAL;
	if (!is_member(group))
		return -ESTALE;
	for (unsigned i = 0; i < count; i++) {
		error = check(group, &writes[i]);
		if (error)
			return error;
	}
	while (done < count) {
		unsigned batch = count - done < BATCH ? count - done : BATCH;
		int taken = send_batch(group, slot, writes + done, batch);

		done += taken > 0 ? (unsigned)taken : 0;
		if (taken < (int)batch) {
			if (list_empty(&group->link))
				list_add_tail(&group->ctx->groups.refused, &group->link);
			break;
		}
	}
	return (int)done;
}

uint32_t gw_group_unsent(const struct gw_group *group)
{
	return is_member(group) ? group->unsent : 0;
}

int gw_group_timer(struct gw_group *group, uint64_t at)
{
	if (!group)
		return -EINVAL;
	if (!is_member(group))
		return -ESTALE;
	timer_set(group->ctx, &group->timer, at);
	return 0;
}

void group_timer_fired(struct gw_group *group)
{
	if (group->handler && group->handler->timer)
		group->handler->timer(group, group->arg, group->ctx->now);
}

static void arrived(struct gw_group *group, const struct fabric_event *event, uint64_t now)
{
	const struct gw_group_packet packet = { .slot = event->slot,
						.packet = event->group.packet,
						.user = event->group.user_bits,
						.source = event->group.source,
						.data = event->group.bytes,
						.length = event->group.length };

	if (group->handler && group->handler->packet)
		group->handler->packet(group, group->arg, &packet, now);
}

/* A group that was left in this turn stays in the pool until the turn is over, so that its events are known to be its. */
bool context_group_event(struct gw_context *ctx, const struct fabric_event *event)
{
	struct gw_group *group = event->user;

	if (event->type != FABRIC_GROUP && event->type != FABRIC_SENT)
		return false;
	if (!pool_owns_live(&ctx->groups.pool, group))
		return event->type == FABRIC_GROUP;
	if (!group->fabric_group)
		return true;
	if (event->type == FABRIC_GROUP) {
		arrived(group, event,
			event->at_ns && event->at_ns < ctx->now ? event->at_ns : ctx->now);
		return true;
	}
	group->unsent -= event->count < group->unsent ? event->count : group->unsent;
	if (list_empty(&group->link))
		list_add_tail(&ctx->groups.refused, &group->link);
	return true;
}

int context_groups_turn(struct gw_context *ctx)
{
	struct list now, *item;
	int called = 0;

	list_init(&now);
	while ((item = list_first(&ctx->groups.left))) {
		list_del(item);
		pool_put(&ctx->groups.pool, container_of(item, struct gw_group, link));
	}
	/* One that is refused again waits for the next turn. */
	while ((item = list_first(&ctx->groups.refused))) {
		list_del(item);
		list_add_tail(&now, item);
	}
	while ((item = list_first(&now))) {
		struct gw_group *group = container_of(item, struct gw_group, link);

		list_del(item);
		if (group->handler && group->handler->room)
			group->handler->room(group, group->arg, ctx->now);
		called++;
	}
	return called;
}
