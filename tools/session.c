/* SPDX-License-Identifier: BSD-3-Clause */
/* What several commands report or compute in the same way. */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "interrupt.h"
#include "report.h"

/* Bytes of a fabric string: an IPv6 address with a scope, a prefix and a port. */
#define FABRIC_TEXT 128

#define UDP_PORT_DEFAULT 4791

uint64_t session_blocks(uint64_t size, uint32_t block)
{
	return size / block + (size % block != 0);
}

uint64_t session_block_length(uint64_t size, uint32_t block, uint64_t index)
{
	uint64_t left = size - index * block;

	return left < block ? left : block;
}

uint64_t session_now(void)
{
	return clock_now_ns();
}

double session_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void log_line(void *arg, enum gw_log_level level, const char *line)
{
	const struct report *report = arg;

	(void)level;
	fprintf(stderr, "godwit %s: %s\n", report->command, line);
}

int session_prepare(struct report *report)
{
	/* What fails is explained by the command itself, in one line. */
	enum log_level level = LOG_LEVEL_ERROR;
	const char *wanted = getenv("GODWIT_LOG");
	int rc;

	if (wanted && wanted[0] != '\0' && log_level_parse(wanted, &level))
		return report_fail(report, -EINVAL,
				   "GODWIT_LOG is \"%s\"; it may be error, warn, info or debug",
				   wanted);
	gw_log_set((enum gw_log_level)level, log_line, report);
	rc = interrupt_install();
	return rc ? report_fail(report, rc, "cannot handle signals: %s", strerror(-rc)) : 0;
}

static unsigned udp_port(const struct options *options)
{
	return options->udp_port_given ? options->udp_port : UDP_PORT_DEFAULT;
}

static int explain_context(struct report *report, const struct options *options, const char *local,
			   int error)
{
	unsigned port = udp_port(options);

	if (error == -EADDRINUSE)
		return report_fail(
			report, error,
			"UDP port %u of %s is held by a program that does not share it; choose another with --udp-port",
			port, local);
	return report_fail(report, error, "cannot open the fabric on %s, UDP port %u: %s", local,
			   port, gw_context_error(NULL));
}

/* The attributes of a context on `local`; `fabric` has to last as long as they do. */
static struct gw_context_attr context_attr(struct report *report, const struct options *options,
					   const char *local, const struct gw_context_attr *limits,
					   char fabric[FABRIC_TEXT])
{
	struct gw_context_attr attr = *limits;

	snprintf(report->local, sizeof(report->local), "%s", local);
	if (options->udp_port_given)
		snprintf(fabric, FABRIC_TEXT, "roce:%s@%u", local, options->udp_port);
	else
		snprintf(fabric, FABRIC_TEXT, "roce:%s", local);
	attr.fabric = fabric;
	attr.faults = options->faulty ? &options->faults : NULL;
	attr.lanes = options->lanes;
	attr.traffic_class = options->traffic_class;
	if (options->icrc == ICRC_OFF)
		attr.flags |= GW_CONTEXT_SKIP_ICRC;
	return attr;
}

int session_open_context(struct report *report, const struct options *options, const char *local,
			 const struct gw_context_attr *limits, struct gw_context **out)
{
	char fabric[FABRIC_TEXT];
	struct gw_context_attr attr = context_attr(report, options, local, limits, fabric);
	int rc = gw_context_open(&attr, out);

	return rc ? explain_context(report, options, local, rc) : 0;
}

int session_open_service(struct report *report, const struct options *options, const char *local,
			 const struct gw_context_attr *limits, const struct gw_service_attr *how,
			 struct gw_service **out)
{
	char fabric[FABRIC_TEXT];
	struct gw_context_attr attr = context_attr(report, options, local, limits, fabric);
	struct gw_service_attr service = *how;
	int rc;

	service.context = &attr;
	rc = gw_service_open(&service, out);
	if (rc == -EAGAIN)
		return report_fail(report, rc, "the system allows no %u threads more",
				   service.threads);
	return rc ? explain_context(report, options, local, rc) : 0;
}

static uint64_t read_counter(const struct gw_context *ctx, const char *name)
{
	uint64_t value = 0;

	gw_counter_read(ctx, (unsigned)gw_counter_find(name), &value);
	return value;
}

bool session_icrc(const struct gw_context *ctx)
{
	return read_counter(ctx, "qps_without_icrc") == 0;
}

int session_explain_connect(struct report *report, const char *peer, int error)
{
	switch (error) {
	case -EPROTONOSUPPORT:
		return report_fail(report, error,
				   "%s runs a version of Godwit that this one cannot talk to",
				   peer);
	case -EPERM:
		return report_fail(report, error, SESSION_SEAL_ONE_SIDED);
	case -ENETUNREACH:
		return report_fail(report, error, "there is no path for packets to %s", peer);
	default:
		return report_fail(report, error, "cannot connect a queue pair to %s: %s", peer,
				   strerror(-error));
	}
}

enum session_heard session_heard(const struct gw_context *ctx)
{
	if (read_counter(ctx, "control_heard") || read_counter(ctx, "landed_packets"))
		return SESSION_HEARD_PEER;
	return read_counter(ctx, "drop_stranger") ? SESSION_HEARD_STRANGERS : SESSION_HEARD_NOTHING;
}

static void describe_silence(char out[SESSION_LOSS_SIZE], const struct report *report,
			     const char *peer, const struct options *options,
			     const struct gw_context *ctx)
{
	double seconds = session_seconds(options->timeout_ns);
	enum session_heard heard = ctx ? session_heard(ctx) : SESSION_HEARD_PEER;
	char port[32] = "a free port";

	if (!options->udp_port_given || options->udp_port)
		snprintf(port, sizeof(port), "port %u", udp_port(options));
	if (heard == SESSION_HEARD_PEER)
		snprintf(out, SESSION_LOSS_SIZE, "%s went silent for %g s", peer, seconds);
	else if (heard == SESSION_HEARD_STRANGERS)
		snprintf(
			out, SESSION_LOSS_SIZE,
			"UDP packets of %.64s come from another address than the one it named (is there NAT in between?)",
			peer);
	else
		snprintf(
			out, SESSION_LOSS_SIZE,
			"no UDP packet from %.64s reached %s of %s in %g s although TCP works (does a firewall or NAT block UDP?)",
			peer, port, report->local, seconds);
}

void session_describe_loss(char out[SESSION_LOSS_SIZE], const struct report *report,
			   const char *peer, int error, const struct options *options,
			   const struct gw_context *ctx)
{
	const char *why = ctx ? gw_context_error(ctx) : "";

	if (error == -ETIMEDOUT)
		describe_silence(out, report, peer, options, ctx);
	else if (error == -ECONNRESET)
		snprintf(out, SESSION_LOSS_SIZE, "%s gave up", peer);
	else if (error == -EMSGSIZE)
		snprintf(
			out, SESSION_LOSS_SIZE,
			"large packets do not reach %s, though small ones do: the MTU of the path seems to have shrunk",
			peer);
	else
		snprintf(out, SESSION_LOSS_SIZE, "the transfer with %s failed: %s%s%s", peer,
			 strerror(-error), why[0] ? ": " : "", why);
}

void session_explain_signal(struct report *report, int error)
{
	int signal = interrupt_signal();

	if (error != -EINTR || !signal || report->error[0] != '\0')
		return;
	report->signal = signal;
	report_fail(report, error, "interrupted by SIG%s", sigabbrev_np(signal));
}
