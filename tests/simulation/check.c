/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of a message: its bytes where bits are set, its chunks, its immediate, and its memory after release. */
#include <errno.h>
#include <string.h>

#include "message/state.h"
#include "simulation/flow.h"

uint64_t message_sum(const struct message *m)
{
	uint64_t length = m->plan->capacity + 2 * MARGIN;
	uint64_t value = length;
	uint64_t i = 0;

	for (; i + sizeof(uint64_t) <= length; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, m->target + i, sizeof(word));
		value = (value ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		value ^= value >> 31;
	}
	for (; i < length; i++)
		value = (value ^ m->target[i]) * UINT64_C(0x100000001b3);
	return value;
}

static void check_bytes(struct message *m, struct gw_recv *recv,
			const struct gw_recv_status *status)
{
	uint32_t payload = status->payload;
	uint32_t end = status->flags & GW_RECV_ANNOUNCED ? status->packets : status->highest;
	uint32_t from = 0, landed = 0;
	struct gw_run hole;

	while (from < end) {
		uint32_t below = end;
		uint64_t first, last;

		if (gw_recv_next_hole(recv, from, end, &hole) == 1)
			below = hole.first;
		else
			hole = (struct gw_run){ end, 0 };
		first = (uint64_t)from * payload;
		last = (uint64_t)below * payload;
		if (last > m->plan->length)
			last = m->plan->length;
		if (last > first &&
		    memcmp(message_target(m) + first, m->expected + first, last - first))
			run_fail(m->flow->run,
				 "message %u: bytes are wrong under bits that are set", m->index);
		landed += below - from;
		from = hole.first + hole.count;
	}
	if (landed != status->landed)
		run_fail(m->flow->run, "message %u: %u bits, %u counted", m->index, landed,
			 status->landed);
}

static void check_chunks(struct message *m, struct gw_recv *recv,
			 const struct gw_recv_status *status)
{
	uint32_t chunk_packets = m->flow->run->scenario->qp.chunk_packets;
	const uint64_t *words;
	uint32_t chunks;

	if (gw_recv_bitmap(recv, &words, &chunks) || !(status->flags & GW_RECV_ANNOUNCED))
		return;
	for (uint32_t c = 0; c < chunks; c++) {
		uint32_t first = c * chunk_packets;
		uint32_t count_ = status->packets > first ? status->packets - first : 0;
		uint64_t packets = 0, full;
		bool bit = words[c / 64] >> c % 64 & 1;

		if (count_ > chunk_packets)
			count_ = chunk_packets;
		full = count_ == 64 ? UINT64_MAX : (UINT64_C(1) << count_) - 1;
		gw_recv_expand(recv, c, &packets);
		if (bit != (count_ && packets == full))
			run_fail(m->flow->run,
				 "message %u: chunk %u says %d, its packets %lx of %lx", m->index,
				 c, bit, (unsigned long)packets, (unsigned long)full);
	}
}

void message_check_bounded(struct message *m, int status)
{
	struct run *run = m->flow->run;
	uint32_t reason = m->outcome.reason;

	if (reason == GW_BOUNDED_DEADLINE)
		run_saw(run, SIGHT_DEADLINE);
	else if (reason == GW_BOUNDED_EARLY)
		run_saw(run, SIGHT_ENDED_EARLY);
	else if (reason == GW_BOUNDED_FLOOR)
		run_saw(run, SIGHT_FLOOR_REACHED);
	else if (reason == GW_BOUNDED_PREEMPTED)
		run_saw(run, SIGHT_PREEMPTED);
	if (reason == GW_BOUNDED_PREEMPTED && !m->plan->in_line)
		run_fail(run, "message %u: it was pre-empted and is in no line", m->index);
	if (status && status != -EIO && status != -ETIMEDOUT && !run->scenario->may_fail)
		run_fail(run, "message %u: the bounded receive ended with %d", m->index, status);
	if (!status && m->plan->floor_ppm == 1000000 && !m->whole)
		run_fail(run, "message %u: it has holes although its floor is 100 %%", m->index);
	if (!status && m->whole != (m->outcome.bytes == m->plan->length))
		run_fail(run, "message %u: %lu bytes of %lu, and whole is %d", m->index,
			 (unsigned long)m->outcome.bytes, (unsigned long)m->plan->length, m->whole);
}

void message_check_imm(struct message *m, struct gw_recv *recv)
{
	uint32_t imm;
	int error = gw_recv_imm(recv, &imm);

	if (!error && (!m->plan->has_imm || imm != m->plan->imm))
		run_fail(m->flow->run, "message %u: immediate %08x instead of %08x", m->index, imm,
			 m->plan->imm);
	if (error == -ENODATA && m->plan->has_imm)
		run_fail(m->flow->run, "message %u: its immediate is missing", m->index);
}

void message_check(struct message *m, const struct gw_recv_status *status)
{
	check_bytes(m, m->recv, status);
	check_chunks(m, m->recv, status);
	message_check_imm(m, m->recv);
}

void flow_check_untouched(struct flow *flow)
{
	for (uint32_t i = 0; i < flow->posted_recvs; i++) {
		const struct message *m = &flow->message[i];
		uint64_t whole = m->plan->capacity + 2 * MARGIN;

		if (m->received && message_sum(m) != m->sum)
			run_fail(flow->run, "message %u: its memory changed after release", i);
		for (uint32_t j = 0; j < MARGIN; j++)
			if (m->target[j] != MARGIN_BYTE || m->target[whole - 1 - j] != MARGIN_BYTE)
				run_fail(flow->run,
					 "message %u: bytes were written outside its buffer", i);
	}
}

void flow_note_receiver_death(struct flow *flow)
{
	for (uint32_t i = 0; i < flow->posted_sends; i++) {
		const struct gw_send *send = flow->message[i].send;

		if (!send)
			continue;
		if (!send_is_matched(send))
			run_saw(flow->run, SIGHT_DEATH_WAITING_GRANT);
		else if (send->head)
			run_saw(flow->run, SIGHT_DEATH_SENDING);
		else
			run_saw(flow->run, SIGHT_DEATH_WAITING_RESULT);
	}
}

void flow_note_sender_death(struct flow *flow)
{
	for (uint32_t i = 0; i < flow->posted_recvs; i++)
		if (flow->message[i].recv)
			run_saw(flow->run, flow->message[i].recv->landed ? SIGHT_DEATH_RECEIVING
									 : SIGHT_DEATH_BEFORE_DATA);
}
