/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mainline drivers tell PFC and the DSCP table over dcbnl; those of MLNX_OFED and DOCA tell the trust state in sysfs, too.
 * On mlx5 a DSCP entry in the table means that the DSCP is trusted.
 */
#include "qos.h"

#include <stdio.h>
#include <string.h>

#include "parse.h"

#define SELECTOR_DSCP 5

static void read_table(const char *text, struct qos *out)
{
	const char *line;
	size_t length;

	while (parse_line(&text, &line, &length)) {
		unsigned selector, protocol, priority;

		if (sscanf(line, "app %u %u %u", &selector, &protocol, &priority) != 3 ||
		    selector != SELECTOR_DSCP || protocol > 63 || priority > 7)
			continue;
		out->trust = TRUST_DSCP;
		out->priority[protocol] = (unsigned char)priority;
	}
}

void qos_read(struct exam *exam, const struct port *port, struct qos *out)
{
	struct reader *reader = exam->model->reader;
	const char *netdev = netdev_name(port);
	const struct fact *trust;
	uint64_t pfc;

	*out = (struct qos){ 0 };
	/* The table that a driver starts with: the upper three bits are the priority. */
	for (unsigned dscp = 0; dscp < 64; dscp++)
		out->priority[dscp] = (unsigned char)(dscp >> 3);
	out->fact = reader_read(reader, "/.godwit/netlink/dcb/%s", netdev);
	if (out->fact->state == FACT_KNOWN) {
		if (parse_value_number(out->fact->text, "pfc_en", &pfc)) {
			out->pfc_known = true;
			out->pfc = (unsigned)pfc & 0xff;
			out->trust = TRUST_PCP;
		}
		read_table(out->fact->text, out);
	}
	trust = reader_read(reader, "/sys/class/net/%s/qos/trust", netdev);
	if (trust->state == FACT_KNOWN)
		out->trust = strstr(trust->text, "dscp") ? TRUST_DSCP : TRUST_PCP;
}

unsigned qos_traffic_class(struct exam *exam, const struct port *port, const char **name)
{
	const struct variable *variable = nccl_variable(&exam->nccl, "NCCL_IB_TC");
	const struct fact *global = reader_read(exam->model->reader, "%s/tc/%u/traffic_class",
						port->device->path, port->number);
	unsigned value;

	/* A traffic class that the administrator set for the device overrides what a program asks for. */
	if (sscanf(global->text, "Global tclass=%u", &value) == 1 && value < 256) {
		*name = say(exam, "the device's traffic class %u", value);
		return value;
	}
	if (variable && variable->value[0]) {
		*name = say(exam, "NCCL_IB_TC=%s", variable->value);
		return (unsigned)nccl_number(&exam->nccl, "NCCL_IB_TC", 0) & 0xff;
	}
	*name = "NCCL_IB_TC unset, so traffic class 0";
	return 0;
}

unsigned qos_priority(const struct qos *qos, unsigned traffic_class)
{
	return qos->trust == TRUST_DSCP ? qos->priority[traffic_class >> 2 & 63] : 0;
}
