/* SPDX-License-Identifier: BSD-3-Clause */
/* flow.h: one direction of a queue pair in a scenario: its messages, posted as planned and checked as they end. */
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
	uint8_t *source;   /* overwritten when the send ends: whoever reads it later shows */
	uint8_t *expected; /* what was in it */
	uint8_t *target;   /* with a margin on both sides */
	struct gw_mr *source_mr;
	struct gw_mr *target_mr;
	struct gw_send *send;
	struct gw_recv *recv;
	uint32_t cursor; /* stream: next packet to put */
	bool second;	 /* stream: on its second pass */
	bool sent;	 /* the send ended */
	bool received;	 /* the receive was released */
	bool whole;
	struct gw_erasure *erasure[2]; /* the sender's and the receiver's, where there is coding */
	struct gw_bounded_outcome outcome;
	uint8_t deadline; /* channels: 1 the send has one, 2 the receive */
	int send_status;
	int recv_status;
	uint64_t sum; /* of the target, at release */
};

struct flow {
	struct run *run;
	const struct flow_plan *plan;
	struct gw_qp *tx;
	struct gw_qp *rx;
	struct gw_channel *tx_channel; /* in their place, where the scenario has channels */
	struct gw_channel *rx_channel;
	bool tx_over; /* its end is gone: no more is posted */
	bool rx_over;
	uint32_t posted_sends;
	uint32_t posted_recvs;
	uint32_t ended_sends;
	uint32_t ended_recvs;
	struct gw_line line; /* of its bounded messages */
	struct message message[MESSAGES_MAX];
};

#define NOTES	    32
#define NOTE_LENGTH 112

struct run {
	const struct scenario *scenario;
	struct run_result *result;
	bool trace;
	uint64_t start_ns;
	struct world world;
	struct gw_qp_handler qp_handler;
	struct flow flows[FLOWS_MAX];
	bool struck[MISFORTUNES_MAX];
	bool relieved[MISFORTUNES_MAX];
	char explanation[160];
	char notes[NOTES][NOTE_LENGTH]; /* the last events, where the run is traced */
	uint32_t noted;
};

void run_fail(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Remembers an event, where the run is traced. */
void run_note(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void run_saw(struct run *run, enum sight sight)
{
	run->result->sights[sight]++;
	if (run->trace)
		run_note(run, "%s", sight_names[sight]);
}

/* check.c */
#define MARGIN	    64 /* bytes around a target that nobody may touch */
#define MARGIN_BYTE 0xa5

static inline uint8_t *message_target(const struct message *m)
{
	return m->target + MARGIN;
}

uint64_t message_sum(const struct message *m);
void message_check(struct message *m, const struct gw_recv_status *status);
/* A bounded receive ended with this. */
void message_check_bounded(struct message *m, int status);
void message_check_imm(struct message *m, struct gw_recv *recv);

/* coding.c: nothing for a message without coding. A dead host's context is closed, and what was in it gone. */
int message_open_coding(struct message *m, struct gw_context *tx, struct gw_context *rx);
/* What the sender chose under auto. */
void message_saw_choice(const struct message *m);
void message_close_coding(struct message *m, int end, bool lives);
/* channels.c */
int channels_open(struct run *run, uint32_t index);
void channels_close_one(struct run *run, uint32_t pair, bool receiver);
void channels_forget(struct flow *flow, bool receiver);
void channels_host_dies(struct run *run, uint32_t host);
void channels_check(struct run *run);
void channels_close(struct run *run);

/* flow.c */
int flow_prepare(struct run *run, uint32_t index);
int flow_open(struct run *run, uint32_t index, struct gw_qp *tx, struct gw_qp *rx);
bool flow_finished(const struct flow *flow);
void flow_close(struct flow *flow);
void flow_close_qps(struct flow *flow, struct flow *back);
void flow_check_untouched(struct flow *flow);
void flow_note_receiver_death(struct flow *flow);
void flow_note_sender_death(struct flow *flow);
/* The host's context is about to be closed: its handles are gone. */
void flows_host_dies(struct run *run, uint32_t host);
void flows_explain(struct run *run);
void flows_free(struct run *run);

#endif
