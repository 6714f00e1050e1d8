/* SPDX-License-Identifier: BSD-3-Clause */
/* flow.h: a flow is one direction of a queue pair or channel in a scenario. Its messages are posted as planned and checked as
 * they end. */
#ifndef SIMULATION_FLOW_H
#define SIMULATION_FLOW_H

#include <godwit/auto.h>
#include <godwit/bounded.h>
#include <godwit/channel.h>
#include <godwit/erasure.h>

#include "simulation/run.h"
#include "sim/world.h"

struct flow;

struct message {
	struct flow *flow;
	const struct message_plan *plan;
	uint32_t index;
	/* Memory that is sent. It is overwritten when the send ends, so that a later read delivers wrong bytes. */
	uint8_t *source;
	/* Copy of the original content of `source`. */
	uint8_t *expected;
	/* Memory that is received into, with a margin on both sides. */
	uint8_t *target;
	struct gw_mr *source_mr;
	struct gw_mr *target_mr;
	struct gw_send *send;
	struct gw_recv *recv;
	/* Stream: next packet to put, and whether this is the second pass over the message. */
	uint32_t cursor;
	bool second;
	/* True once the send has ended. */
	bool sent;
	/* True once the receive was released. */
	bool received;
	/* True if every packet had arrived by then. */
	bool whole;
	/* Coders of the sender and of the receiver; null without coding. */
	struct gw_erasure *erasure[2];
	struct gw_bounded_outcome outcome;
	/* Channels: 1 if the send has a deadline, 2 if the receive has one. */
	uint8_t deadline;
	int send_status;
	int recv_status;
	/* Checksum of the target at its release. */
	uint64_t sum;
};

struct flow {
	struct run *run;
	const struct flow_plan *plan;
	struct gw_qp *tx;
	struct gw_qp *rx;
	/* Used instead of `tx` and `rx` in scenarios with channels. */
	struct gw_channel *tx_channel;
	struct gw_channel *rx_channel;
	/* True when this end is gone, so that nothing more is posted. */
	bool tx_over;
	bool rx_over;
	uint32_t posted_sends;
	uint32_t posted_recvs;
	uint32_t ended_sends;
	uint32_t ended_recvs;
	/* Line of the flow's bounded messages. */
	struct gw_line line;
	struct message message[MESSAGES_MAX];
};

#define NOTES	    32
#define NOTE_LENGTH 112

struct run {
	const struct scenario *scenario;
	struct run_result *result;
	bool trace;
	uint64_t start_ns;
	/* Time that the slots of channels rest between messages, if every message has a part for its parity. */
	uint64_t rests_ns;
	struct world world;
	struct gw_qp_handler qp_handler;
	struct flow flows[FLOWS_MAX];
	/* Which faults have begun, and which have ended. */
	bool struck[MISFORTUNES_MAX];
	bool shrunk;
	bool relieved[MISFORTUNES_MAX];
	/* Requests that did not end, for the report of a failure. */
	char explanation[160];
	/* The last events of a traced run, and the number of events so far. */
	char notes[NOTES][NOTE_LENGTH];
	uint32_t noted;
};

void run_fail(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records an event for the report of a failure. Called in traced runs only. */
void run_note(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void run_saw(struct run *run, enum sight sight)
{
	run->result->sights[sight]++;
	if (run->trace)
		run_note(run, "%s", sight_names[sight]);
}

/* check.c */
/* Bytes on both sides of a target that nothing may write to, and their value. */
#define MARGIN	    64
#define MARGIN_BYTE 0xa5

static inline uint8_t *message_target(const struct message *m)
{
	return m->target + MARGIN;
}

uint64_t message_sum(const struct message *m);
void message_check(struct message *m, const struct gw_recv_status *status);
/* Checks the outcome of a bounded receive that ended with this status. */
void message_check_bounded(struct message *m, int status);
void message_check_imm(struct message *m, struct gw_recv *recv);

/* coding.c: these do nothing for a message without coding. */
int message_open_coding(struct message *m, struct gw_context *tx, struct gw_context *rx);
/* Counts what the sender chose under auto. */
void message_saw_choice(const struct message *m);
/* Closes the coder of an end (0: sender, 1: receiver). If its host is dead, the context was closed before. */
void message_close_coding(struct message *m, int end, bool lives);
/* channels.c */
int channels_open(struct run *run, uint32_t index);
void channels_close_one(struct run *run, uint32_t pair, bool receiver);
void channels_forget(struct flow *flow, bool receiver);
void channels_host_dies(struct run *run, uint32_t host);
void channels_check(struct run *run);
void channels_close(struct run *run);

/* flow_send.c and flow_recv.c: post as many as the plan wants open at a time. */
void flow_post_sends(struct flow *flow);
void flow_post_recvs(struct flow *flow);

/* flow.c */
int flow_prepare(struct run *run, uint32_t index);
int flow_open(struct run *run, uint32_t index, struct gw_qp *tx, struct gw_qp *rx);
bool flow_finished(const struct flow *flow);
void flow_close(struct flow *flow);
void flow_close_qps(struct flow *flow, struct flow *back);
void flow_check_untouched(struct flow *flow);
void flow_note_receiver_death(struct flow *flow);
void flow_note_sender_death(struct flow *flow);
/* Forgets the handles of a host whose context is about to be closed. */
void flows_host_dies(struct run *run, uint32_t host);
void flows_explain(struct run *run);
void flows_free(struct run *run);

#endif
