/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit qualify: does Godwit work on this hardware? For owners of an RDMA NIC: one command on each of two hosts goes
 * through every combination that applies, looks at all data at both ends, and writes a report to send in.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/meet.h"
#include "case.h"
#include "exchange.h"
#include "report.h"
#include "records.h"
#include "tools/report.h"
#include "tools/session.h"

#define REPORT_DEFAULT "godwit-qualify.json"

enum { OPTION_DEVICE = OPTION_OWN, OPTION_REPORT, OPTION_WITH_ADDRESSES };

static const struct option long_options[] = {
	OPTIONS_SHARED,
	{ "device", required_argument, NULL, OPTION_DEVICE },
	{ "report", required_argument, NULL, OPTION_REPORT },
	{ "with-addresses", no_argument, NULL, OPTION_WITH_ADDRESSES },
	{ NULL, 0, NULL, 0 },
};

struct qualify {
	struct options options;
	/* name of the only device to use, or null */
	const char *device;
	const char *file;
	struct report report;
	struct control control;
	struct qualify_means means;
	struct qualify_findings findings;
	struct qualify_run run;
	/* counters of the devices before the first case */
	json_t *before;
	/* what the library logged about the devices, each line once */
	json_t *lines;
};

static int parse(int argc, char **argv, struct qualify *qualify)
{
	struct report *report = &qualify->report;
	struct options *options = &qualify->options;
	int id, rc;

	options_begin(argc, argv, report, options);
	options->counterpart = "qualify";
	qualify->file = REPORT_DEFAULT;
	while ((id = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		rc = 0;
		if (id == OPTION_DEVICE)
			qualify->device = optarg;
		else if (id == OPTION_REPORT)
			qualify->file = optarg;
		else if (id == OPTION_WITH_ADDRESSES)
			qualify->findings.with_addresses = true;
		else
			rc = options_read(id, argv, report, options);
		if (rc)
			return rc;
	}
	if (argc - optind > 1)
		return report_usage(report, "\"%s\" is one argument too many", argv[optind + 1]);
	rc = options_place(report, options, argc > optind ? argv[optind] : NULL);
	if (rc)
		return rc;
	report->json = options->json;
	report->quiet = options->quiet;
	qualify->findings.print = !options->json && !options->quiet;
	return 0;
}

/* Before the other end is asked for anything. The address is known once the two have met. */
static int look_around(struct qualify *qualify)
{
	struct qualify_means *means = &qualify->means;

	means->seal = qualify->options.seal;
	means->udp_port = qualify->options.udp_port_given ? qualify->options.udp_port : 0;
	means->count = qualify_devices_find(qualify->device, means->devices);
	if (qualify->device && !means->count)
		return report_fail(
			&qualify->report, -ENODEV,
			"%s is no RDMA device here with a RoCE port that is up; `ibv_devinfo` lists what there is",
			qualify->device);
	qualify->findings.own_devices = means->count;
	qualify->before = qualify_devices_counters(means->devices, means->count);
	return 0;
}

/* A case may take four fifths of the time that an end waits for the other. */
static uint64_t case_timeout(const struct qualify *qualify)
{
	return qualify->options.timeout_ns / 5 * 4;
}

/* The keys of a case; null if its packets are clear. What is wrong is put into the offer. */
static const struct gw_seal *case_keys(struct qualify *qualify, const struct qualify_case *what,
				       struct gw_seal *memory, struct qualify_offer *offer)
{
	const struct gw_seal *seal = NULL;

	if (what->sealed != (qualify->options.seal && qualify_case_users(what))) {
		offer->status = -EPERM;
		snprintf(offer->why, sizeof(offer->why), "one end has --seal, the other has not");
	} else if (what->sealed) {
		offer->status = meet_seal(&qualify->report, &qualify->options,
					  qualify->control.rendezvous, memory, &seal);
		if (offer->status)
			snprintf(offer->why, sizeof(offer->why), "no keys to seal packets with");
	}
	return seal;
}

/* Opens this end of a case. The offer holds its queue pair, or the reason why there is none. */
static void open_case(struct qualify *qualify, const struct qualify_case *what, int end,
		      struct qualify_offer *offer)
{
	const struct options *options = &qualify->options;
	bool user = what->kind[end] == QUALIFY_USER;
	struct qualify_run *run = &qualify->run;
	char fabric[QUALIFY_FABRIC];
	const struct gw_seal *seal;
	struct gw_seal keys;

	*offer = (struct qualify_offer){ .status = qualify_case_fabric(what, &qualify->means, end,
								       fabric) };
	if (offer->status) {
		snprintf(offer->why, sizeof(offer->why), "no device with such an address");
		return;
	}
	seal = case_keys(qualify, what, &keys, offer);
	if (offer->status)
		return;
	offer->status = qualify_run_open(run, fabric, what->payload, end == QUALIFY_CALLER,
					 options->timeout_ns,
					 options->faulty && user ? &options->faults : NULL, seal);
	explicit_bzero(&keys, sizeof(keys));
	if (!offer->status && what->kind[end] == QUALIFY_UC && strstr(run->found, "UD datagrams")) {
		offer->status = -ENOTSUP;
		snprintf(offer->why, sizeof(offer->why), "the device does not do it: see UD");
	} else if (offer->status) {
		memcpy(offer->why, run->result.why, sizeof(offer->why));
	} else {
		offer->status = gw_qp_info(run->qp, &offer->qp);
	}
}

/* One case as the caller. */
static int run_case(struct qualify *qualify, const struct qualify_case *what)
{
	struct qualify_findings *findings = &qualify->findings;
	struct control *control = &qualify->control;
	uint8_t encoded[QUALIFY_CASE_BYTES];
	struct qualify_offer theirs, ours;
	struct qualify_result result;
	char label[QUALIFY_LABEL], why[QUALIFY_WHY + 32];
	int rc;

	qualify_case_label(what, &qualify->means, label);
	qualify_case_encode(what, encoded);
	rc = control_send(control, QUALIFY_RECORD_CASE, encoded, sizeof(encoded));
	if (rc == 0)
		rc = qualify_recv_offer(control, &theirs);
	if (rc)
		return rc;
	open_case(qualify, what, QUALIFY_CALLER, &ours);
	rc = qualify_send_offer(control, &ours);
	if (rc)
		return rc;
	if (ours.status || theirs.status) {
		snprintf(why, sizeof(why), "%s: %s", ours.status ? "here" : "there",
			 ours.status ? ours.why : theirs.why);
		qualify_report_skip(findings, what, label, why);
		return 0;
	}
	control->ctx = qualify->run.ctx;
	rc = qualify_run_exchange(&qualify->run, &theirs.qp, case_timeout(qualify));
	if (rc == -EINTR)
		return rc;
	rc = qualify_recv_result(control, &result);
	if (rc == 0)
		qualify_report_case(findings, what, label, &qualify->run.result, &result,
				    qualify->run.found);
	return rc;
}

static void close_case(struct qualify *qualify)
{
	qualify->control.ctx = NULL;
	qualify_run_close(&qualify->run);
}

static json_t *own_changes(const struct qualify *qualify)
{
	json_t *after = qualify_devices_counters(qualify->means.devices, qualify->means.count);
	json_t *changes = qualify_devices_changes(qualify->before, after);

	json_decref(after);
	return changes;
}

/* The object, to stdout with --json and to the file in any case. */
static int write_report(struct qualify *qualify)
{
	const struct qualify_findings *findings = &qualify->findings;
	const char *file = qualify->file;
	FILE *out;

	json_object_set_new(qualify->report.body, "cases", json_incref(findings->cases));
	json_object_set_new(qualify->report.body, "not_verified",
			    qualify_report_unverified(findings));
	if (findings->with_addresses) {
		json_object_set_new(qualify->report.body, "this_address",
				    report_text(gw_rendezvous_local(qualify->control.rendezvous)));
		json_object_set_new(qualify->report.body, "other_address",
				    report_text(gw_rendezvous_remote(qualify->control.rendezvous)));
	}
	out = fopen(file, "we");
	if (!out || json_dumpf(qualify->report.body, out, JSON_INDENT(2)) ||
	    fputc('\n', out) == EOF || fclose(out))
		return report_fail(&qualify->report, -errno, "cannot write %s: %s", file,
				   strerror(errno));
	snprintf(qualify->report.outcome, sizeof(qualify->report.outcome),
		 "%u passed, %u failed, %u skipped; the report is in %s", findings->counts[0],
		 findings->counts[1], findings->counts[2], file);
	if (findings->counts[QUALIFY_FAILED])
		return report_fail(
			&qualify->report, -EIO, "%u of %zu cases failed; the report is in %s",
			findings->counts[QUALIFY_FAILED], json_array_size(findings->cases), file);
	return 0;
}

static int run_cases(struct qualify *qualify, const struct qualify_ready *ready)
{
	struct qualify_case cases[QUALIFY_CASES_MAX];
	unsigned count =
		qualify_cases(&qualify->means, ready->devices, ready->ipv4, ready->ipv6, cases);
	int rc = 0;

	for (unsigned i = 0; i < count && rc == 0; i++) {
		rc = run_case(qualify, &cases[i]);
		close_case(qualify);
	}
	return rc;
}

static int call(struct qualify *qualify)
{
	struct control *control = &qualify->control;
	struct report *report = &qualify->report;
	json_t *peer = NULL, *last = NULL;
	struct qualify_ready ready;
	int rc;

	snprintf(report->peer, sizeof(report->peer), "%s", qualify->options.host);
	rc = meet_connect(report, &qualify->options, &control->rendezvous);
	if (rc)
		return rc;
	qualify->means.address = gw_rendezvous_local(control->rendezvous);
	rc = control_send(control, QUALIFY_RECORD_HELLO, "", 0);
	if (rc == 0)
		rc = qualify_recv_json(control, &peer, &ready);
	if (rc)
		return rc;
	qualify->findings.peer_devices = ready.devices;
	json_object_set_new(report->body, "this_end", qualify_devices_describe());
	json_object_set_new(report->body, "other_end", peer ? peer : json_null());
	rc = run_cases(qualify, &ready);
	if (rc == 0)
		rc = control_send(control, QUALIFY_RECORD_END, "", 0);
	if (rc == 0)
		rc = qualify_recv_json(control, &last, &ready);
	if (rc)
		return rc;
	json_object_set_new(report->body, "this_device_counted", own_changes(qualify));
	json_object_set(report->body, "other_device_counted", json_object_get(last, "counted"));
	json_object_set_new(
		report->body, "other_fabric_says",
		qualify_report_lines(&qualify->findings, json_object_get(last, "fabric_says")));
	json_decref(last);
	return write_report(qualify);
}

static void keep_line(struct qualify *qualify)
{
	const char *line = qualify->run.found;

	for (size_t i = 0; i < json_array_size(qualify->lines); i++)
		if (!strcmp(json_string_value(json_array_get(qualify->lines, i)), line))
			return;
	if (line[0])
		json_array_append_new(qualify->lines, report_text(line));
}

/* One case as the one that waits. */
static int serve_case(struct qualify *qualify, const struct qualify_case *what)
{
	struct control *control = &qualify->control;
	struct qualify_offer ours, theirs;
	int rc;

	open_case(qualify, what, QUALIFY_WAITER, &ours);
	keep_line(qualify);
	control->ctx = qualify->run.ctx;
	rc = qualify_send_offer(control, &ours);
	if (rc == 0)
		rc = qualify_recv_offer(control, &theirs);
	if (rc || ours.status || theirs.status)
		return rc;
	rc = qualify_run_exchange(&qualify->run, &theirs.qp, case_timeout(qualify));
	return rc == -EINTR ? rc : qualify_send_result(control, &qualify->run.result);
}

/* -EAGAIN: what the caller said first makes no sense, and it was told so. */
static int check_first(struct qualify *qualify, struct gw_rendezvous_listener *listener)
{
	static const char why[] = "its first message makes no sense";
	struct control *control = &qualify->control;
	int rc = control_expect(control, QUALIFY_RECORD_HELLO);

	if (rc == 0 || rc == -EINTR)
		return rc;
	qualify->report.error[0] = '\0';
	meet_refuse(&qualify->report, listener, &control->rendezvous, why, why);
	return -EAGAIN;
}

static int wait_for_caller(struct qualify *qualify)
{
	struct report *report = &qualify->report;
	struct control *control = &qualify->control;
	struct gw_rendezvous_listener *listener;
	int rc;

	rc = meet_listen(report, &qualify->options, &listener);
	if (rc)
		return rc;
	do {
		rc = meet_accept(report, listener, &control->rendezvous);
		if (rc == 0)
			rc = check_first(qualify, listener);
	} while (rc == -EAGAIN);
	gw_rendezvous_listener_close(listener);
	if (rc)
		return rc;
	qualify->means.address = gw_rendezvous_local(control->rendezvous);
	snprintf(report->peer, sizeof(report->peer), "%s",
		 gw_rendezvous_remote(control->rendezvous));
	return 0;
}

static int tell_about_us(struct qualify *qualify)
{
	const struct qualify_means *means = &qualify->means;
	struct qualify_ready ready = { .devices = (uint8_t)means->count };
	json_t *own = qualify_devices_describe();
	int rc;

	for (unsigned i = 0; i < means->count; i++) {
		ready.ipv4 |= means->devices[i].gid_ipv4 >= 0;
		ready.ipv6 |= means->devices[i].gid_ipv6 >= 0;
	}
	rc = qualify_send_json(&qualify->control, own, &ready);
	json_decref(own);
	return rc;
}

static int serve(struct qualify *qualify)
{
	struct control *control = &qualify->control;
	struct qualify_ready ready = { 0 };
	struct qualify_case what;
	unsigned count = 0;
	json_t *last;
	int rc = wait_for_caller(qualify);

	if (rc == 0)
		rc = tell_about_us(qualify);
	while (rc == 0) {
		/* The last case stays open until here: the caller may still need a word from it. */
		rc = control_recv(control);
		close_case(qualify);
		if (rc || control->kind == QUALIFY_RECORD_END)
			break;
		if (control->kind != QUALIFY_RECORD_CASE ||
		    qualify_case_decode(control->body, control->length, &what))
			rc = control_explain_nonsense(control);
		else
			rc = serve_case(qualify, &what);
		count++;
	}
	if (rc)
		return rc;
	last = json_object();
	json_object_set_new(last, "counted", own_changes(qualify));
	json_object_set(last, "fabric_says", qualify->lines);
	rc = qualify_send_json(control, last, &ready);
	json_decref(last);
	snprintf(qualify->report.outcome, sizeof(qualify->report.outcome),
		 "took part in %u cases; the report is at %s", count, qualify->report.peer);
	return rc;
}

static int run(int argc, char **argv)
{
	static struct qualify qualify;
	struct report *report = &qualify.report;
	int rc;

	report->command = argv[0];
	report->body = json_object();
	qualify.findings.cases = json_array();
	qualify.lines = json_array();
	qualify.control = (struct control){ .report = report, .options = &qualify.options };
	rc = parse(argc, argv, &qualify);
	if (rc == 0)
		rc = session_prepare(report);
	if (rc == 0)
		rc = look_around(&qualify);
	if (rc == 0)
		rc = qualify.options.host ? call(&qualify) : serve(&qualify);
	close_case(&qualify);
	if (rc) {
		session_explain_signal(report, rc);
		control_give_up(&qualify.control);
	}
	gw_rendezvous_close(qualify.control.rendezvous);
	json_decref(qualify.before);
	json_decref(qualify.lines);
	json_decref(qualify.findings.cases);
	return report_finish(report);
}

const struct command command_qualify = {
	.name = "qualify",
	.summary = "try everything that applies between two hosts, and write a report",
	.usage =
		"usage: godwit qualify [OPTION ...]\n"
		"       godwit qualify HOST [OPTION ...]\n"
		"\n"
		"Without HOST, waits. With HOST, where `godwit qualify` waits, goes through every combination\n"
		"of RDMA devices, UC and UD, IPv4 and IPv6, packet sizes, and user space that applies, both\n"
		"directions at once, all data looked at. Prints a table and writes a JSON report, which also\n"
		"says what was not verified. It names no host and no address.\n"
		"\n"
		"Between user-space ends --udp-port is any unless given; towards a device it is 4791.\n"
		"--seal is for packets between user-space ends; a device cannot seal its own.\n"
		"\n"
		"  --device NAME   use this RDMA device only (default: every one with a RoCE port that is up)\n"
		"  --report FILE   where the report goes (default godwit-qualify.json)\n"
		"  --with-addresses  let the report hold addresses\n"
		"  --bind ADDR     use this address of this host\n" OPTIONS_USAGE_FROM
			OPTIONS_USAGE_SEAL OPTIONS_USAGE,
	.run = run,
};
