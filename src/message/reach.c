/* SPDX-License-Identifier: BSD-3-Clause */
/* Validation of the peer's address; see reach.h. */
#include <errno.h>
#include <string.h>

#include "message/trace.h"

/* Bytes of probes to an address that never answered: at once, and for each second since. A handful in the first second, then
 * about one a second, as long as the queue pair waits for its peer. */
#define ALLOWANCE	   768u
#define ALLOWANCE_A_SECOND 128u
#define NS_A_SECOND	   UINT64_C(1000000000)
/* Bytes sent for each byte that came, before the address is proven: QUIC's limit (RFC 9000, section 8.1). */
#define AMPLIFICATION 3u
/* Bytes that a datagram has on the wire beyond its data, near enough. */
#define OVERHEAD 72u

int reach_init(struct reach *reach, const char *host)
{
	size_t length = host ? strlen(host) : 0;

	if (length >= sizeof(reach->host))
		return -EINVAL;
	memcpy(reach->host, host ? host : "", length + 1);
	return 0;
}

/* Whether the peer's address is that of the host which the application met. */
static bool was_met(const struct gw_qp *qp)
{
	const struct reach *r = &qp->reach;
	/* A link-local address may have a zone ("%eth0"), which says by which interface and not which host. */
	size_t length = strcspn(r->host, "%");
	char peer[REACH_HOST_SIZE] = "";

	if (!length || !qp->ctx->fabric->ops->qp_peer)
		return false;
	qp->ctx->fabric->ops->qp_peer(qp->fabric_qp, peer, sizeof(peer));
	return strcspn(peer, "@") == length && !memcmp(peer, r->host, length);
}

int reach_connect(struct gw_qp *qp)
{
	struct fabric *fabric = qp->ctx->fabric;

	qp->reach.since_ns = qp->ctx->now;
	qp->reach.proven = !fabric->caps.addresses_forged || was_met(qp);
	if (qp->reach.proven)
		return 0;
	return fabric->ops->entropy(fabric, &qp->reach.salt, sizeof(qp->reach.salt));
}

void reach_heard(struct gw_qp *qp, uint32_t bytes, uint32_t packets)
{
	if (!qp->reach.proven)
		qp->reach.heard += (uint64_t)packets * (bytes + OVERHEAD);
}

bool reach_may_send(struct gw_qp *qp, uint64_t bytes)
{
	struct reach *r = &qp->reach;
	uint64_t seconds = (qp->ctx->now - r->since_ns) / NS_A_SECOND;
	uint64_t most = ALLOWANCE + ALLOWANCE_A_SECOND * seconds + AMPLIFICATION * r->heard;

	if (r->proven)
		return true;
	if (r->sent + bytes + OVERHEAD > most)
		return false;
	r->sent += bytes + OVERHEAD;
	return true;
}

uint32_t reach_payable(const struct gw_qp *qp, uint32_t owed)
{
	if (qp->reach.proven)
		return owed;
	return owed & (qp->reach.heard ? ~OWE_SIZE : OWE_PROBE);
}

uint64_t reach_ask(struct gw_qp *qp)
{
	struct reach *r = &qp->reach;
	uint64_t number = qp->ctx->now + r->salt;

	if (!r->proven)
		r->asked[r->probes++ % REACH_PROBES] = number;
	return number;
}

/* What was held back is told at once. */
static void prove(struct gw_qp *qp)
{
	TRACE_QP(qp, "address proven after %u probes", qp->reach.probes);
	qp->reach.proven = true;
	qp_tell_again(qp);
	qp_owe(qp, OWE_ACK | (qp->rx.results_owed || qp->feedback.unreported ? OWE_REPORT : 0));
	feedback_reopen(qp);
}

uint64_t reach_answered(struct gw_qp *qp, uint64_t number)
{
	struct reach *r = &qp->reach;
	bool known = r->proven;

	for (unsigned i = 0; !known && i < REACH_PROBES; i++)
		known = r->asked[i] && r->asked[i] == number;
	if (known && !r->proven)
		prove(qp);
	return known ? number - r->salt : 0;
}
