/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qos.h: how an interface treats packets by their DSCP: the chain traffic class -> DSCP -> priority -> PFC and ECN.
 */
#ifndef DOCTOR_QOS_H
#define DOCTOR_QOS_H

#include "exam.h"

enum trust { TRUST_UNKNOWN, TRUST_PCP, TRUST_DSCP };

struct qos {
	/* where PFC was read; its state says whether the rest is known */
	const struct fact *fact;
	bool pfc_known;
	/* one bit for each priority with PFC */
	unsigned pfc;
	enum trust trust;
	/* priority of each DSCP */
	unsigned char priority[64];
};

void qos_read(struct exam *exam, const struct port *port, struct qos *out);

/* The traffic class that NCCL's data has on this port; *name says where it comes from ("NCCL_IB_TC=106"). */
unsigned qos_traffic_class(struct exam *exam, const struct port *port, const char **name);

/* The priority in which a packet with this traffic class travels. Without a VLAN and with trust in the PCP that is 0. */
unsigned qos_priority(const struct qos *qos, unsigned traffic_class);

#endif
