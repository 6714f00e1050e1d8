/* SPDX-License-Identifier: BSD-3-Clause */
/* The link itself: flaps, bit errors, and counters that have stopped. */
#include <stdio.h>
#include <string.h>

#include "exam.h"
#include "parse.h"

/* Link losses that maintenance explains. */
#define FLAPS_USUAL 10u
/* Each time the carrier goes and comes counts as two. */
#define CARRIER_CHANGES_USUAL 20u
/* What the InfiniBand specification calls acceptable. */
#define ERRORS_AN_HOUR 10.0

/* Says so if none of these counters has a value: a link whose errors nobody counts is not a clean one. */
static void tell_if_blind(struct exam *exam, const struct subject *subject,
			  const char *const *of_port, const char *const *of_netdev)
{
	const struct port *port = subject->port;
	bool there = false;
	uint64_t value;

	for (; *of_port; of_port++) {
		const struct counter *counter = counters_find(&port->counters, *of_port);

		there |= counter != NULL;
		if (counter_value(counter, &value))
			return;
	}
	for (; port->netdev && *of_netdev; of_netdev++) {
		if (counter_value(counters_find(&port->netdev->counters, *of_netdev), &value))
			return;
	}
	unseen_why(exam, subject, say(exam, "%s/counters", port->path),
		   there ? "the driver has no such value" : "the driver has no such counter");
}

static void flap_counter(struct exam *exam, const struct subject *subject,
			 const struct counter *counter)
{
	struct finding *finding;
	uint64_t value, delta = 0;

	if (!counter_value(counter, &value))
		return;
	counter_delta(counter, &delta);
	if (!delta && value <= FLAPS_USUAL)
		return;
	finding = found(exam, subject, counter->path, "%s: %s%llu%s", counter->name,
			counter->saturated ? "at least " : "", (unsigned long long)value,
			delta ? ", and it went down just now" : "");
	if (delta)
		finding->severity = SEVERITY_ERROR;
}

static void link_flaps(struct exam *exam, const struct subject *subject)
{
	static const char *const of_port[] = { "link_downed", NULL };
	static const char *const of_netdev[] = { "link_down_events_phy", NULL };
	const struct port *port = subject->port;
	const struct fact *carrier;
	uint64_t changes;

	flap_counter(exam, subject, counters_find(&port->counters, "link_downed"));
	carrier = reader_read(exam->model->reader, "/sys/class/net/%s/carrier_changes",
			      netdev_name(port));
	/* The carrier of the interface tells of the link, too. */
	if (carrier->state != FACT_KNOWN)
		tell_if_blind(exam, subject, of_port, of_netdev);
	if (!port->netdev)
		return;
	flap_counter(exam, subject, counters_find(&port->netdev->counters, "link_down_events_phy"));
	if (carrier->state == FACT_KNOWN && parse_number(carrier->text, &changes) &&
	    changes > CARRIER_CHANGES_USUAL)
		found(exam, subject, carrier->path, "%llu changes of the carrier since boot",
		      (unsigned long long)changes);
}

static double uptime_hours(struct exam *exam)
{
	double seconds = 0;

	if (sscanf(reader_read(exam->model->reader, "/proc/uptime")->text, "%lf", &seconds) != 1 ||
	    seconds < 3600)
		return 1;
	return seconds / 3600;
}

static void error_counter(struct exam *exam, const struct subject *subject,
			  const struct counter *counter)
{
	uint64_t value, delta = 0;
	double hours = uptime_hours(exam);

	if (!counter_value(counter, &value))
		return;
	if (counter_delta(counter, &delta) && delta)
		found(exam, subject, counter->path, "%s: %llu in %u ms", counter->name,
		      (unsigned long long)delta, exam->model->interval_ms);
	else if (!counter->saturated && (double)value / hours > ERRORS_AN_HOUR)
		found(exam, subject, counter->path, "%s: %llu since boot, %.0f an hour",
		      counter->name, (unsigned long long)value, (double)value / hours);
}

static void bit_errors(struct exam *exam, const struct subject *subject)
{
	static const char *const of_port[] = { "symbol_error", "port_rcv_errors",
					       "local_link_integrity_errors",
					       "port_rcv_remote_physical_errors", NULL };
	static const char *const of_netdev[] = { "rx_crc_errors_phy", "rx_pcs_symbol_err_phy",
						 "rx_symbol_err_phy", "rx_fcs_errors", NULL };

	tell_if_blind(exam, subject, of_port, of_netdev);
	for (const char *const *name = of_port; *name; name++)
		error_counter(exam, subject, counters_find(&subject->port->counters, *name));
	for (const char *const *name = of_netdev; subject->port->netdev && *name; name++)
		error_counter(exam, subject,
			      counters_find(&subject->port->netdev->counters, *name));
}

static void saturated(struct exam *exam, const struct subject *subject)
{
	const struct counters *counters = &subject->port->counters;
	struct builder names = { 0 };

	for (size_t i = 0; i < counters->count; i++) {
		if (counters->counter[i].saturated)
			builder_print(&names, "%s%s", names.length ? ", " : "",
				      counters->counter[i].name);
	}
	if (names.length)
		found(exam, subject, say(exam, "%s/counters", subject->port->path), "%s",
		      names.text);
	builder_free(&names);
}

static void no_counters(struct exam *exam, const struct subject *subject)
{
	const struct counters *counters = &subject->port->counters;
	size_t known = 0;

	for (size_t i = 0; i < counters->count; i++)
		known += counters->counter[i].state == FACT_KNOWN;
	if (known)
		return;
	unseen_why(exam, subject, say(exam, "%s/counters", subject->port->path),
		   counters->count ? "the driver has no such value" : "the driver has no counters");
}

static const struct check checks[] = {
	{
		.id = "link-flaps",
		.severity = SEVERITY_WARNING,
		.impact = 79,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_HARDWARE,
		.title = "the link goes down now and then",
		.healthy = "stable since boot",
		.why = "NCCL's connections survive a few seconds at most: a flap ends the job, or stalls it for half a minute.",
		.fix = "reseat or replace cable and transceiver; dmesg shows when; mlxlink -d DEVICE --show_counters",
		.explain =
			"link_downed and link_down_events_phy count losses of the link, carrier_changes each change of the interface's carrier. A few come from boots and maintenance.",
		.run = link_flaps,
	},
	{
		.id = "bit-errors",
		.severity = SEVERITY_WARNING,
		.impact = 72,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_HARDWARE,
		.title = "the link damages packets",
		.healthy = "below 10 an hour, none while watched",
		.why = "A damaged packet is a lost packet: see retransmissions.",
		.fix = "clean or replace the optics or the cable; mlxlink -d DEVICE -m -c shows the bit error rate",
		.explain =
			"symbol_error, port_rcv_errors and the like of InfiniBand's port counters; rx_crc_errors_phy and rx_pcs_symbol_err_phy of Ethernet. Errors that FEC corrects are not counted here.",
		.run = bit_errors,
	},
	{
		.id = "counters-saturated",
		.severity = SEVERITY_WARNING,
		.impact = 35,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA,
		.title = "counters have stopped at their largest value",
		.healthy = "none",
		.why = "What they count may go on unseen: a change cannot be computed.",
		.fix = "perfquery -R (InfiniBand), as root; then watch again",
		.explain =
			"The port's management counters have 4, 8, 16 or 32 bits and stop: link_downed at 255, symbol_error at 65535, excessive_buffer_overrun_errors at 15. No difference is computed from such a value.",
		.run = saturated,
	},
	{
		.id = "port-counters",
		.severity = SEVERITY_INFO,
		.impact = 10,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA,
		.title = "the port has no counters",
		.healthy = "counters/ and hw_counters/",
		.why = "Loss and errors of this port cannot be seen from the host.",
		.fix = "examine the host that owns the physical function",
		.explain =
			"A virtual function answers \"N/A (no PMA)\"; bnxt_re has no counters/ directory but hw_counters/.",
		.run = no_counters,
	},
};

const struct check_group checks_physical = CHECK_GROUP(checks);
