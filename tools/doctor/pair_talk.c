/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair_talk.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Largest values that make sense; arithmetic on smaller ones does not overflow. */
#define COUNT_MAX  (UINT64_C(1) << 24)
#define BYTES_MAX  (UINT64_C(1) << 34)
#define RATE_MAX   (UINT64_C(1) << 46)
#define TIME_MAX   (INT64_C(1) << 60)
#define TIME_LEAST 1000
/* Longest wait for one message: a caller that stalls must not keep others waiting. */
#define PATIENCE_NS UINT64_C(10000000000)

uint64_t pair_clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int pair_say_message(struct pair_talk *talk, enum pair_message kind, json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT);
	int rc = -ENOMEM;

	json_decref(object);
	if (text)
		rc = gw_rendezvous_send(talk->rendezvous, kind, text, strlen(text));
	free(text);
	return rc;
}

/* Sleeps until something comes, for `wait_ns` at most. Returns 0 or -EINTR. */
static int sleep_for(struct pair_talk *talk, uint64_t wait_ns, bool messages)
{
	struct pollfd fds[4] = {
		{ .fd = talk->interrupt_fd > 0 ? talk->interrupt_fd : -1, .events = POLLIN },
		{ .fd = messages ? gw_rendezvous_fd(talk->rendezvous) : -1, .events = POLLIN },
		{ .fd = talk->probe ? talk->probe->fd[0] : -1, .events = POLLIN },
		{ .fd = talk->probe ? talk->probe->fd[1] : -1, .events = POLLIN },
	};
	const struct timespec wait = { .tv_sec = (time_t)(wait_ns / 1000000000),
				       .tv_nsec = (long)(wait_ns % 1000000000) };

	ppoll(fds, 4, &wait, NULL);
	if (talk->probe)
		probe_take(talk->probe);
	return fds[0].revents ? -EINTR : 0;
}

void pair_wait(struct pair_talk *talk, uint64_t until_ns)
{
	for (uint64_t now; (now = pair_clock_now()) < until_ns;) {
		if (sleep_for(talk, until_ns - now, false) != 0)
			return;
	}
	if (talk->probe)
		probe_take(talk->probe);
}

static void take_fill(struct pair_talk *talk, uint32_t length)
{
	talk->fill_last_ns = pair_clock_now();
	talk->fill_bytes += length;
}

int pair_hear_message(struct pair_talk *talk, enum pair_message kind, json_t **out)
{
	struct gw_rendezvous_message message;
	uint64_t now, until = pair_clock_now() + PATIENCE_NS;
	int rc;

	if (until > talk->deadline_ns)
		until = talk->deadline_ns;
	for (;;) {
		rc = gw_rendezvous_try_recv(talk->rendezvous, &message);
		if (rc == 0 && message.kind == PAIR_FILL) {
			take_fill(talk, message.length);
			continue;
		}
		if (rc != -EAGAIN)
			break;
		now = pair_clock_now();
		if (now >= until)
			return -ETIMEDOUT;
		if (sleep_for(talk, until - now, true) != 0)
			return -EINTR;
	}
	if (rc)
		return rc;
	if (message.kind != kind)
		return -EPROTO;
	*out = json_loadb(message.data, message.length, 0, NULL);
	if (json_is_object(*out))
		return 0;
	json_decref(*out);
	*out = NULL;
	return -EPROTO;
}

uint64_t pair_member(const json_t *object, const char *name, uint64_t most, uint64_t otherwise)
{
	const json_t *member = json_object_get(object, name);
	json_int_t value = json_integer_value(member);

	if (!json_is_integer(member) || value < 0)
		return otherwise;
	return (uint64_t)value < most ? (uint64_t)value : most;
}

void pair_member_text(const json_t *object, const char *name, char out[PAIR_TEXT])
{
	const char *text = json_string_value(json_object_get(object, name));
	size_t length = 0;

	for (; text && *text && length < PAIR_TEXT - 1; text++)
		out[length++] = *text > ' ' && *text <= '~' ? *text : '?';
	out[length] = '\0';
}

static int64_t member_signed(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));

	return value > TIME_MAX ? TIME_MAX : value < -TIME_MAX ? -TIME_MAX : value;
}

static json_t *counts_json(const uint32_t *counts, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_integer(counts[i]));
	return list;
}

static void counts_read(const json_t *object, const char *name, uint32_t *out, size_t count)
{
	const json_t *list = json_object_get(object, name);

	for (size_t i = 0; i < count; i++) {
		json_int_t value = json_integer_value(json_array_get(list, i));

		out[i] = value < 0			 ? 0
			 : value > (json_int_t)COUNT_MAX ? COUNT_MAX
							 : (uint32_t)value;
	}
}

json_t *pair_sent_json(const struct pair_sent *sent)
{
	return json_pack("{s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "packets",
			 (json_int_t)sent->packets, "other", (json_int_t)sent->other_packets,
			 "marked", counts_json(sent->marked, PAIR_MARKS), "size_arrived",
			 (json_int_t)sent->size_arrived, "size_lost", (json_int_t)sent->size_lost,
			 "icmp_mtu", (json_int_t)sent->icmp_mtu, "bulk_packets",
			 (json_int_t)sent->bulk_packets, "bulk_bytes", (json_int_t)sent->bulk_bytes,
			 "bulk_ns", (json_int_t)sent->bulk_ns);
}

static uint64_t member_time(const json_t *object, const char *name)
{
	uint64_t value = pair_member(object, name, TIME_MAX, 0);

	return value && value < TIME_LEAST ? TIME_LEAST : value;
}

void pair_sent_read(const json_t *object, struct pair_sent *out)
{
	out->packets = (uint32_t)pair_member(object, "packets", COUNT_MAX, 0);
	out->other_packets = (uint32_t)pair_member(object, "other", COUNT_MAX, 0);
	counts_read(object, "marked", out->marked, PAIR_MARKS);
	out->size_arrived = (uint32_t)pair_member(object, "size_arrived", UINT16_MAX, 0);
	out->size_lost = (uint32_t)pair_member(object, "size_lost", UINT16_MAX, 0);
	out->icmp_mtu = (uint32_t)pair_member(object, "icmp_mtu", UINT16_MAX, 0);
	out->bulk_packets = (uint32_t)pair_member(object, "bulk_packets", COUNT_MAX, 0);
	out->bulk_bytes = pair_member(object, "bulk_bytes", BYTES_MAX, 0);
	out->bulk_ns = member_time(object, "bulk_ns");
}

json_t *pair_heard_json(const struct pair_heard *heard)
{
	uint32_t arrived[PAIR_MARKS];

	for (unsigned i = 0; i < PAIR_MARKS; i++)
		arrived[i] = heard->mark_arrived[i];
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"packets", (json_int_t)heard->packets, "duplicates", (json_int_t)heard->duplicates,
		"reordered", (json_int_t)heard->reordered, "other",
		(json_int_t)heard->other_packets, "marked", counts_json(heard->marked, PAIR_MARKS),
		"mark_arrived", counts_json(arrived, PAIR_MARKS), "delay_min_ns",
		(json_int_t)heard->delay_min_ns, "delay_p10_ns", (json_int_t)heard->delay_p10_ns,
		"delay_p50_ns", (json_int_t)heard->delay_p50_ns, "delay_p90_ns",
		(json_int_t)heard->delay_p90_ns, "source", heard->source, "source_port",
		(json_int_t)heard->source_port, "train_bps", (json_int_t)heard->train_bps,
		"bulk_packets", (json_int_t)heard->bulk_packets, "bulk_bytes",
		(json_int_t)heard->bulk_bytes, "bulk_ns", (json_int_t)heard->bulk_ns,
		"bulk_delay_ns", (json_int_t)heard->bulk_delay_ns, "overrun",
		(json_int_t)heard->overrun, "tcp_bps", (json_int_t)heard->tcp_bps);
}

void pair_heard_read(const json_t *object, struct pair_heard *out)
{
	uint32_t arrived[PAIR_MARKS];

	out->packets = (uint32_t)pair_member(object, "packets", COUNT_MAX, 0);
	out->duplicates = (uint32_t)pair_member(object, "duplicates", COUNT_MAX, 0);
	out->reordered = (uint32_t)pair_member(object, "reordered", COUNT_MAX, 0);
	out->other_packets = (uint32_t)pair_member(object, "other", COUNT_MAX, 0);
	counts_read(object, "marked", out->marked, PAIR_MARKS);
	counts_read(object, "mark_arrived", arrived, PAIR_MARKS);
	for (unsigned i = 0; i < PAIR_MARKS; i++)
		out->mark_arrived[i] = (uint8_t)arrived[i];
	out->delay_min_ns = member_signed(object, "delay_min_ns");
	out->delay_p10_ns = member_signed(object, "delay_p10_ns");
	out->delay_p50_ns = member_signed(object, "delay_p50_ns");
	out->delay_p90_ns = member_signed(object, "delay_p90_ns");
	pair_member_text(object, "source", out->source);
	out->source_port = (uint16_t)pair_member(object, "source_port", UINT16_MAX, 0);
	out->train_bps = pair_member(object, "train_bps", RATE_MAX, 0);
	out->bulk_packets = (uint32_t)pair_member(object, "bulk_packets", COUNT_MAX, 0);
	out->bulk_bytes = pair_member(object, "bulk_bytes", BYTES_MAX, 0);
	out->bulk_ns = member_time(object, "bulk_ns");
	out->bulk_delay_ns = member_signed(object, "bulk_delay_ns");
	out->overrun = (uint32_t)pair_member(object, "overrun", COUNT_MAX, 0);
	out->tcp_bps = pair_member(object, "tcp_bps", RATE_MAX, 0);
}

static json_t *end_json(const struct pair_end *end)
{
	return json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:o, s:o}", "name", end->name,
			 "address", end->address, "seen_as", end->seen, "udp_port", end->udp_port,
			 "other_port", end->other_port, "mtu", (json_int_t)end->mtu,
			 "receive_buffer", (json_int_t)end->receive_buffer, "send_buffer",
			 (json_int_t)end->send_buffer, "sent", pair_sent_json(&end->sent), "heard",
			 pair_heard_json(&end->heard));
}

/* 0 stands for what was not measured: JSON has a word for that. */
static json_t *measured(uint64_t value)
{
	return value ? json_integer((json_int_t)value) : json_null();
}

json_t *pair_json(const struct pair *pair)
{
	static const char *const peers[] = { "doctor", "other",	      "refused",
					     "silent", "unreachable", "secret" };
	static const char *const backs[] = { "unknown", "works", "refused", "silent" };
	int64_t offset = 0;
	uint64_t error = 0;
	bool clock = pair_clock(pair, &offset, &error);

	return json_pack(
		"{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "peer",
		peers[pair->peer], "port", pair->port, "rtt_min_ns", measured(pair->rtt_min_ns),
		"rtt_ns", measured(pair->rtt_ns), "tcp_rtt_ns", measured(pair->tcp_rtt_ns),
		"clock_offset_ns", clock ? json_integer((json_int_t)offset) : json_null(),
		"clock_error_ns", clock ? json_integer((json_int_t)error) : json_null(), "tcp_back",
		backs[pair->back], "icmp_size", measured(pair->icmp_size), "here",
		pair->peer == PAIR_PEER_DOCTOR ? end_json(&pair->here) : json_null(), "there",
		pair->peer == PAIR_PEER_DOCTOR ? end_json(&pair->there) : json_null());
}
