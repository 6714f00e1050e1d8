/* SPDX-License-Identifier: BSD-3-Clause */
#include "survey.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "tools/interrupt.h"
#include "tournament.h"
#include "verdict.h"

/* Ranks wait for each other for so long after a measurement, which has limits of its own. */
#define WAIT_NS UINT64_C(60000000000)

/* Pairs with findings are measured again so often, and so many of them at most. */
#define CONFIRMATIONS 2
#define DOUBTS_MAX    8

/* What a rank tells the others about itself, once. */
struct card {
	char name[MATRIX_NAME];
	char address[MATRIX_ADDRESS];
	uint16_t ports[MATRIX_PORTS_MAX];
	unsigned port_count;
};

/* What a rank tells the others before each measurement: its ends of channels. */
struct ends {
	struct gw_channel_info infos[MATRIX_PORTS_MAX];
};

/* What a rank measured with one other rank, by source port: what it sent there and received from there. */
struct row {
	double latency_us;
	double together_bps;
	struct {
		double bps;
		struct port_counts counts;
	} port[MATRIX_PORTS_MAX];
};

struct survey {
	struct mesh_job *job;
	struct gw_comm *comm;
	unsigned rank, size;
	struct port ports[MATRIX_PORTS_MAX];
	/* ports that are open, and those that every rank has */
	unsigned port_count, used_ports;
	struct card *cards;
	struct ends *ends;
	/* ranks that this one sends to and receives from while all send */
	unsigned shift[2];
	/* one for each other rank */
	struct row *rows;
	/* the ranks are on different hosts: pairs on one host are left out */
	bool many_hosts;
};

static int fail(struct survey *survey, int error, const char *what)
{
	const char *why = gw_comm_error(survey->comm);

	if (interrupt_signal())
		return report_fail(&survey->job->report, -EINTR, "interrupted");
	return report_fail(&survey->job->report, error, "%s: %s", what,
			   why[0] ? why : strerror(-error));
}

/* Every rank gives `bytes` and gets those of all. */
static int gather(struct survey *survey, const void *mine, void *all, uint64_t bytes)
{
	struct gw_coll_attr attr = { .send = mine, .recv = all, .count = bytes, .type = GW_UINT8 };
	struct gw_coll *coll;
	char text[256];
	int rc = gw_allgather(survey->comm, &attr, &coll);

	if (rc)
		return fail(survey, rc, "ranks cannot exchange results");
	do {
		rc = gw_coll_wait(coll, WAIT_NS);
		if (interrupt_signal())
			gw_comm_abort(survey->comm, "it was interrupted");
	} while (rc == -EINTR);
	if (rc == -ETIMEDOUT && !gw_coll_test(coll, NULL)) {
		gw_comm_explain(survey->comm, text, sizeof(text));
		gw_comm_abort(survey->comm, text);
		return report_fail(&survey->job->report, rc, "ranks cannot exchange results: %s",
				   text);
	}
	gw_coll_close(coll);
	return rc ? fail(survey, rc, "ranks cannot exchange results") : 0;
}

/* "roce:ADDRESS@0" for a context of its own port; what is no such fabric is taken as it is, once. */
static int open_ports(struct survey *survey)
{
	const char *fabric = survey->job->comm.fabric;
	char text[128], address[64];
	uint16_t number;
	int rc = 0;

	survey->port_count = survey->job->ports;
	if (fabric && strncmp(fabric, "roce:", 5) != 0) {
		survey->port_count = 1;
	} else {
		rc = port_address(gw_comm_context(survey->comm), address, &number);
		snprintf(text, sizeof(text), "roce:%s@0", address);
		fabric = text;
	}
	for (unsigned p = 0; !rc && p < survey->port_count; p++)
		rc = port_open(&survey->ports[p], fabric, survey->comm);
	return rc ? report_fail(&survey->job->report, rc, "cannot open %s: %s", fabric,
				gw_context_error(NULL))
		  : 0;
}

static int introduce(struct survey *survey)
{
	struct card card = { .port_count = survey->port_count };
	int rc;

	gethostname(card.name, sizeof(card.name) - 1);
	if (!card.name[0])
		snprintf(card.name, sizeof(card.name), "rank%u", survey->rank);
	memcpy(card.address, survey->ports[0].address, sizeof(card.address));
	for (unsigned p = 0; p < survey->port_count; p++)
		card.ports[p] = survey->ports[p].number;
	survey->used_ports = survey->port_count;
	rc = gather(survey, &card, survey->cards, sizeof(card));
	for (unsigned i = 0; !rc && i < survey->size; i++) {
		survey->cards[i].name[MATRIX_NAME - 1] = '\0';
		survey->cards[i].address[MATRIX_ADDRESS - 1] = '\0';
		/* All take the same steps, with as many ports as everybody has. */
		if (survey->cards[i].port_count < survey->used_ports)
			survey->used_ports = survey->cards[i].port_count;
		survey->many_hosts |= strcmp(survey->cards[i].name, card.name) != 0;
	}
	return rc;
}

/* Whether two ranks are measured with each other. */
static bool matters(const struct survey *survey, unsigned a, unsigned b)
{
	return a != b &&
	       !(survey->many_hosts && !strcmp(survey->cards[a].name, survey->cards[b].name));
}

/*
 * Opens `count` links, tells all ranks about them, and connects link k to link `theirs[k]` of rank `peers[k]`. Where that rank
 * does not matter there is no link. No rank begins before all have come this far, and none comes here before its last
 * measurement is over.
 */
static int join(struct survey *survey, struct link *links, unsigned count, const unsigned *peers,
		const unsigned *theirs)
{
	struct ends mine;
	int rc = 0;

	memset(&mine, 0, sizeof(mine));
	memset(links, 0, count * sizeof(*links));
	for (unsigned k = 0; !rc && k < count; k++) {
		/* Both links of a rank that sends to one and receives from another are of the first port. */
		struct port *port = &survey->ports[peers == survey->shift ? 0 : k];

		if (matters(survey, survey->rank, peers[k]))
			rc = link_open(&links[k], port, &mine.infos[k]);
	}
	if (rc)
		return report_fail(&survey->job->report, rc, "cannot open a channel: %s",
				   strerror(-rc));
	rc = gather(survey, &mine, survey->ends, sizeof(mine));
	for (unsigned k = 0; !rc && k < count; k++) {
		if (!links[k].channel)
			continue;
		rc = link_connect(&links[k], &survey->ends[peers[k]].infos[theirs[k]]);
		if (rc)
			report_fail(&survey->job->report, rc, "cannot connect to %s: %s",
				    survey->cards[peers[k]].name, strerror(-rc));
	}
	return rc;
}

static void leave(struct link *links, unsigned count)
{
	for (unsigned k = 0; k < count; k++)
		link_close(&links[k]);
}

static double larger(double a, double b)
{
	return isnan(a) || b > a ? b : a;
}

/* What disturbs a measurement makes it slower, so the best of several passes stands; packets add up. */
static void keep(struct row *row, unsigned port, const struct measured *found)
{
	struct port_counts *counts = &row->port[port].counts;

	if (isnan(row->latency_us) || found->latency_us < row->latency_us)
		row->latency_us = found->latency_us;
	row->port[port].bps = larger(row->port[port].bps, found->bps);
	counts->sent += found->counts.sent;
	counts->retransmitted += found->counts.retransmitted;
	counts->received += found->counts.received;
	counts->overrun += found->counts.overrun;
}

/* Measures the pair of this rank and its partner; there is none if that is the rank itself. */
static int measure_partner(struct survey *survey, unsigned partner)
{
	unsigned peers[MATRIX_PORTS_MAX], theirs[MATRIX_PORTS_MAX];
	struct link links[MATRIX_PORTS_MAX] = { 0 };
	int rc;

	for (unsigned p = 0; p < survey->used_ports; p++) {
		peers[p] = partner;
		theirs[p] = p;
	}
	rc = join(survey, links, survey->used_ports, peers, theirs);
	for (unsigned p = 0; !rc && p < survey->used_ports && links[p].channel; p++) {
		struct measured found;

		rc = measure_pair(&links[p], survey->rank < partner, survey->job->time_ns, &found);
		if (rc)
			rc = fail(survey, rc, "stopped");
		else
			keep(&survey->rows[partner], p, &found);
	}
	leave(links, survey->used_ports);
	return rc;
}

/* Link 0 sends to one rank, link 1 receives from another. */
static int measure_together(struct survey *survey, unsigned distance)
{
	static const unsigned theirs[] = { 1, 0 };
	unsigned *peers = survey->shift;
	struct link links[2];
	double bps = NAN;
	int rc;

	peers[0] = (survey->rank + distance) % survey->size;
	peers[1] = (survey->rank + survey->size - distance) % survey->size;
	rc = join(survey, links, 2, peers, theirs);
	if (!rc) {
		rc = measure_shift(links[0].channel ? &links[0] : NULL,
				   links[1].channel ? &links[1] : NULL, survey->job->time_ns, &bps);
		if (rc)
			rc = fail(survey, rc, "stopped");
	}
	leave(links, 2);
	if (!rc && !isnan(bps))
		survey->rows[peers[0]].together_bps =
			larger(survey->rows[peers[0]].together_bps, bps);
	return rc;
}

static int measure_all(struct survey *survey)
{
	unsigned rounds = tournament_rounds(survey->size);
	bool show = !survey->rank && !survey->job->report.json && isatty(STDERR_FILENO);
	int rc = 0;

	for (unsigned pass = 0; !rc && pass < survey->job->passes; pass++) {
		for (unsigned round = 0; !rc && round < rounds; round++) {
			if (show)
				fprintf(stderr, "\rpass %u of %u, round %u of %u  ", pass + 1,
					survey->job->passes, round + 1, rounds);
			rc = measure_partner(survey,
					     tournament_partner(survey->size, round, survey->rank));
		}
		for (unsigned k = 1; !rc && k < survey->size; k++)
			rc = measure_together(survey, k);
	}
	if (show)
		fputs("\r\033[K", stderr);
	return rc;
}

/* Ranks of one host get names of their own. */
static void name_hosts(const struct survey *survey, struct matrix *matrix)
{
	for (unsigned i = 0; i < survey->size; i++) {
		const struct card *card = &survey->cards[i];
		bool shared = false;

		for (unsigned j = 0; j < survey->size; j++)
			shared |= i != j && !strcmp(card->name, survey->cards[j].name);
		snprintf(matrix->host[i].name, MATRIX_NAME, shared ? "%.80s:%u" : "%s", card->name,
			 i);
		memcpy(matrix->host[i].address, card->address, MATRIX_ADDRESS);
	}
}

/* A packet is lost if it was sent and did not arrive, not even to find no room. Where nothing was sent again nothing was lost: what
 * is missing then was still under way. */
static uint64_t lost(const struct port_counts *sender, const struct port_counts *receiver)
{
	uint64_t arrived = receiver->received + receiver->overrun;
	uint64_t missing = sender->sent > arrived ? sender->sent - arrived : 0;

	return missing < sender->retransmitted ? missing : sender->retransmitted;
}

static void fill(const struct survey *survey, const struct row *all, struct matrix *matrix)
{
	for (unsigned i = 0; i < survey->size; i++) {
		for (unsigned j = 0; j < survey->size; j++) {
			const struct row *sender = &all[(size_t)i * survey->size + j];
			const struct row *receiver = &all[(size_t)j * survey->size + i];
			struct matrix_cell *cell = matrix_at(matrix, i, j);

			if (!matters(survey, i, j))
				continue;
			cell->latency_us = isnan(sender->latency_us) ? receiver->latency_us
								     : sender->latency_us;
			cell->together_bps = sender->together_bps;
			for (unsigned p = 0; p < survey->used_ports; p++) {
				struct matrix_port *port = &cell->ports[p];

				port->number = survey->cards[i].ports[p];
				port->bps = sender->port[p].bps;
				port->sent = sender->port[p].counts.sent;
				port->lost =
					lost(&sender->port[p].counts, &receiver->port[p].counts);
			}
		}
	}
	matrix_sum(matrix);
}

static int share(struct survey *survey, struct matrix *out)
{
	uint64_t bytes = survey->size * sizeof(struct row);
	struct row *all = malloc(bytes * survey->size);
	int rc;

	if (!all)
		return report_fail(&survey->job->report, -ENOMEM, "no memory for results");
	rc = gather(survey, survey->rows, all, bytes);
	if (!rc)
		rc = matrix_open(out, survey->size, survey->used_ports);
	if (!rc) {
		name_hosts(survey, out);
		fill(survey, all, out);
	}
	free(all);
	return rc;
}

static struct row *make_rows(unsigned count)
{
	struct row *rows = calloc(count, sizeof(*rows));

	for (unsigned i = 0; rows && i < count; i++) {
		rows[i].latency_us = rows[i].together_bps = NAN;
		for (unsigned p = 0; p < MATRIX_PORTS_MAX; p++)
			rows[i].port[p].bps = NAN;
	}
	return rows;
}

/* Pairs that rank 0 has doubts about. */
struct doubts {
	unsigned count;
	unsigned pairs[DOUBTS_MAX][2];
};

static void find_doubts(const struct matrix *matrix, struct doubts *out)
{
	struct verdict verdict = { 0 };

	*out = (struct doubts){ 0 };
	if (verdict_reach(matrix, &verdict))
		return;
	for (unsigned i = 0; i < verdict.count && out->count < DOUBTS_MAX; i++) {
		const struct finding *finding = &verdict.findings[i];

		if (finding->from < 0 || finding->to < 0 || finding->from == finding->to)
			continue;
		out->pairs[out->count][0] = (unsigned)finding->from;
		out->pairs[out->count++][1] = (unsigned)finding->to;
	}
	verdict_close(&verdict);
}

/*
 * Measures pairs again that were found to be bad, one after the other: in a large mesh some pair is disturbed in every
 * pass, by something else that its hosts do. What is wrong with hosts and networks shows in many pairs and needs no such
 * care.
 */
static int confirm(struct survey *survey, struct matrix *matrix)
{
	struct doubts mine, *all = calloc(survey->size, sizeof(*all));
	int rc;

	if (!all)
		return report_fail(&survey->job->report, -ENOMEM, "no memory for results");
	find_doubts(matrix, &mine);
	rc = gather(survey, &mine, all, sizeof(mine));
	for (unsigned i = 0; !rc && i < all[0].count; i++) {
		const unsigned *pair = all[0].pairs[i];
		unsigned partner = survey->rank == pair[0]   ? pair[1]
				   : survey->rank == pair[1] ? pair[0]
							     : survey->rank;

		rc = measure_partner(survey, partner);
	}
	if (!rc && all[0].count) {
		matrix_close(matrix);
		rc = share(survey, matrix);
	}
	free(all);
	return rc;
}

int survey(struct mesh_job *job, struct gw_comm *comm, struct matrix *out)
{
	struct survey survey = {
		.job = job, .comm = comm, .rank = gw_comm_rank(comm), .size = gw_comm_size(comm)
	};
	int rc;

	survey.cards = calloc(survey.size, sizeof(*survey.cards));
	survey.ends = calloc(survey.size, sizeof(*survey.ends));
	survey.rows = make_rows(survey.size);
	if (!survey.cards || !survey.ends || !survey.rows) {
		report_fail(&job->report, -ENOMEM, "no memory for %u ranks", survey.size);
		rc = -ENOMEM;
	} else {
		rc = open_ports(&survey);
	}
	if (!rc)
		rc = introduce(&survey);
	if (!rc)
		rc = measure_all(&survey);
	if (!rc)
		rc = share(&survey, out);
	for (unsigned i = 0; !rc && i < CONFIRMATIONS; i++)
		rc = confirm(&survey, out);
	for (unsigned p = 0; p < survey.port_count; p++)
		port_close(&survey.ports[p]);
	free(survey.cards);
	free(survey.ends);
	free(survey.rows);
	return rc;
}
