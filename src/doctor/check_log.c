/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's log: what hardware and drivers complained about since boot. */
#include <string.h>

#include "exam.h"
#include "parse.h"

/* Counts the lines with one of the words and returns the last of them; null: none. */
static const char *last_line(struct exam *exam, const char *text, const char *const *words,
			     unsigned *count)
{
	const char *line, *last = NULL;
	size_t length;

	*count = 0;
	while (parse_line(&text, &line, &length)) {
		for (const char *const *word = words; *word; word++) {
			if (!memmem(line, length, *word, strlen(*word)))
				continue;
			last = say(exam, "%.*s", (int)(length < 160 ? length : 160), line);
			++*count;
			break;
		}
	}
	return last;
}

static void look_for(struct exam *exam, const struct subject *subject, const char *const *words)
{
	const struct fact *log = reader_read(exam->model->reader, "/.godwit/kmsg");
	const char *last;
	unsigned count;

	if (!seen(exam, subject, log, true))
		return;
	last = last_line(exam, log->text, words, &count);
	if (last)
		found(exam, subject, "/dev/kmsg", "%u line%s, the last: %s", count,
		      count == 1 ? "" : "s", last);
}

static void hardware_log(struct exam *exam, const struct subject *subject)
{
	static const char *const words[] = { "insufficient power on the PCIe slot",
					     "High Temperature",
					     "Hardware Error",
					     "synd 0x",
					     "health compromised",
					     "PCIe Bus Error: severity=Uncorrected",
					     NULL };

	look_for(exam, subject, words);
}

static void restricted_function(struct exam *exam, const struct subject *subject)
{
	static const char *const words[] = { "ACCESS_REG(0x805) op_mod", "ACCESS_REG", NULL };

	look_for(exam, subject, words);
}

static void xid(struct exam *exam, const struct subject *subject)
{
	static const char *const words[] = { "NVRM: Xid", NULL };

	look_for(exam, subject, words);
}

static void driver_timeout(struct exam *exam, const struct subject *subject)
{
	static const char *const words[] = {
		"transmit queue",  "TX timeout detected",	    "cmd_work_handler",
		"command timeout", "Out of memory: Killed process", NULL
	};

	look_for(exam, subject, words);
}

static const struct check checks[] = {
	{
		.id = "kernel-hardware",
		.severity = SEVERITY_WARNING,
		.impact = 71,
		.gates = GATE_RDMA,
		.title = "the kernel reports trouble with the hardware",
		.healthy = "none",
		.why = "A NIC that lacks power or is too hot runs slower or leaves the bus.",
		.fix = "dmesg -T | grep -iE 'mlx5|pcie|temperature'; then the hardware",
		.explain =
			"Looks for: insufficient power on the PCIe slot, High Temperature, Hardware Error, mlx5's health reports, uncorrected PCIe errors.",
		.run = hardware_log,
	},
	{
		.id = "restricted-function",
		.severity = SEVERITY_WARNING,
		.impact = 18,
		.gates = GATE_RDMA,
		.title = "a monitor floods the log of a restricted NIC",
		.healthy = "none",
		.why = "Harmless by itself; it hides what matters and costs the driver's time.",
		.fix = "exclude the device in the monitor (node_exporter, gpud)",
		.explain =
			"A physical function that may not read its registers fails each ACCESS_REG command that reading its counters causes.",
		.run = restricted_function,
	},
	{
		.id = "xid",
		.severity = SEVERITY_ERROR,
		.impact = 81,
		.gates = GATE_GPU,
		.title = "the GPU driver reports errors (Xid)",
		.healthy = "none",
		.why = "A GPU that fell off the bus (79), has memory errors (48, 63, 94) or NVLink errors (74) makes collectives hang: it looks like the network.",
		.fix = "nvidia-smi -q | grep -i -A3 ecc; reset or drain the host by the Xid's number",
		.explain =
			"NVIDIA documents the numbers. 13, 31 and 43 are most often the program's own fault.",
		.run = xid,
	},
	{
		.id = "driver-timeout",
		.severity = SEVERITY_WARNING,
		.impact = 53,
		.gates = GATE_RDMA,
		.title = "a driver waited in vain, or the kernel killed a process",
		.healthy = "none",
		.why = "A NIC whose commands time out stalls every queue pair on it.",
		.fix = "dmesg -T; devlink health show",
		.explain =
			"Looks for transmit queue timeouts, command timeouts of mlx5, and processes killed for want of memory.",
		.run = driver_timeout,
	},
};

const struct check_group checks_log = CHECK_GROUP(checks);
