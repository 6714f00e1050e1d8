/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs: most packets of a merged datagram are the next packet of the same message.
 *
 * When a full packet has passed all checks, the headers of the one that goes on with it are known but for the sequence number,
 * which nobody checks, and the bits that networks may set. A packet that has them, and lies in the same window, has the same
 * answers to all questions but that of its ICRC. It becomes part of the event of the packet before it. Any other packet is looked
 * at for itself, one with a wrong ICRC too, so that it is counted as what it is.
 */
#include "base/bytes.h"
#include "fabric/roce/rx.h"

/* Of the first 8 bytes of the BTH: all but those that the network may set. */
#define BTH_FIXED UINT64_C(0xffffffff00ffffff)

enum { AT_VA = ROCE_BTH_SIZE, AT_KEY = AT_VA + 8, AT_IMM = ROCE_BTH_SIZE + ROCE_RETH_SIZE };

/* What the next packet has to say, after one that said this. */
static void expect(struct rx_run *run, uint64_t va, uint32_t imm)
{
	const struct fabric_split *split = &run->qp->split;

	run->va = va + run->window->payload;
	run->imm = imm + (1u << split->user_bits);
	/* It is the last that the window has room for, or that can be numbered. */
	if (run->va > run->window->length || run->window->payload > run->window->length - run->va ||
	    fabric_imm_slot(split, run->imm) != run->window->slot)
		run->qp = NULL;
}

void rx_run_begin(struct rx_run *run, struct roce_qp *qp, struct roce_window *window,
		  const struct incoming *in, const struct roce_packet *packet,
		  struct fabric_event *event)
{
	/* One of a single packet goes on with nothing, and one that is shorter than others is the last. */
	run->qp = in->merged && !qp->seal && packet->payload_length == window->payload ? qp : NULL;
	if (!run->qp)
		return;
	run->window = window;
	run->event = event;
	run->length = in->length;
	run->bth = get_be64(in->bytes) & BTH_FIXED;
	run->key = get_be64(in->bytes + AT_KEY);
	expect(run, packet->reth.va, packet->imm);
}

bool rx_run_goes_on(struct rx_run *run, const struct incoming *in)
{
	uint64_t *counters;

	if (!run->qp || in->length != run->length ||
	    (get_be64(in->bytes) & BTH_FIXED) != run->bth ||
	    get_be64(in->bytes + AT_VA) != run->va || get_be64(in->bytes + AT_KEY) != run->key ||
	    get_be32(in->bytes + AT_IMM) != run->imm || !rx_icrc_right(run->qp, in)) {
		run->qp = NULL;
		return false;
	}
	rx_place(run->window, run->va, in->bytes + ROCE_HEADERS_MAX, run->window->payload);
	counters = run->qp->endpoint->fabric.counters;
	counters[FABRIC_RX_BYTES] += in->length;
	counters[FABRIC_RX_DATA]++;
	if (in->ce)
		rx_marked(run->qp);
	run->event->data.more++;
	expect(run, run->va, run->imm);
	return true;
}
