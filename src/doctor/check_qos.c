/* SPDX-License-Identifier: BSD-3-Clause */
/* Lossless Ethernet: PFC, trust, and the chain from NCCL's traffic class to the priority that is protected. */
#include <string.h>

#include "exam.h"
#include "parse.h"
#include "qos.h"

/* Bit of the DCBX mode: the operating system decides. */
#define DCBX_HOST 1u

static unsigned lowest_bit(unsigned mask)
{
	return mask ? (unsigned)__builtin_ctz(mask) : 0;
}

static bool read_qos(struct exam *exam, const struct subject *subject, struct qos *out)
{
	qos_read(exam, subject->port, out);
	if (out->pfc_known)
		return true;
	if (out->fact->state == FACT_KNOWN)
		unseen_why(exam, subject, out->fact->path, "the driver does not tell PFC");
	else
		unseen(exam, subject, out->fact);
	return false;
}

static void pfc(struct exam *exam, const struct subject *subject)
{
	struct finding *finding;
	struct qos qos;

	if (exam->intent == INTENT_LOSSY || !read_qos(exam, subject, &qos) || qos.pfc)
		return;
	finding = found(exam, subject, qos.fact->path, "no priority has PFC (interface %s)",
			netdev_name(subject->port));
	if (exam->intent == INTENT_UNKNOWN) {
		finding->severity = SEVERITY_INFO;
		finding->title = "PFC is off: this fabric is lossy";
		finding->why =
			"That is fine if it was meant (--intent lossy): congestion control and selective repeat have to carry it.";
	}
	finding->fix = say(
		exam,
		"dcb pfc set dev %s prio-pfc all:off 3:on (or mlnx_qos -i %s --pfc 0,0,0,1,0,0,0,0), and the same on the switch",
		netdev_name(subject->port), netdev_name(subject->port));
}

static void pfc_many(struct exam *exam, const struct subject *subject)
{
	struct qos qos;

	if (!read_qos(exam, subject, &qos) || __builtin_popcount(qos.pfc) < 2)
		return;
	found(exam, subject, qos.fact->path, "%d priorities (mask 0x%02x)",
	      __builtin_popcount(qos.pfc), qos.pfc);
}

static void global_pause(struct exam *exam, const struct subject *subject)
{
	const char *netdev = netdev_name(subject->port);
	const struct fact *fact =
		reader_read(exam->model->reader, "/.godwit/ethtool/%s/pause", netdev);
	struct finding *finding;
	uint64_t rx, tx;

	if (!seen(exam, subject, fact, false) || !parse_value_number(fact->text, "rx", &rx) ||
	    !parse_value_number(fact->text, "tx", &tx) || (!rx && !tx))
		return;
	finding = found(exam, subject, fact->path, "rx %s, tx %s", rx ? "on" : "off",
			tx ? "on" : "off");
	finding->fix = say(exam, "ethtool -A %s autoneg off rx off tx off", netdev);
}

static void trust(struct exam *exam, const struct subject *subject)
{
	struct finding *finding;
	struct qos qos;

	qos_read(exam, subject->port, &qos);
	if (qos.trust == TRUST_UNKNOWN) {
		unseen(exam, subject, qos.fact);
		return;
	}
	/* Without PFC there is no priority that the DSCP has to find. */
	if (qos.trust == TRUST_DSCP || !qos.pfc || exam->intent == INTENT_LOSSY)
		return;
	finding = found(exam, subject, qos.fact->path, "trust pcp (interface %s, no VLAN seen)",
			netdev_name(subject->port));
	finding->fix = say(
		exam, "mlnx_qos -i %s --trust dscp (mainline: dcb app add dev %s dscp-prio 26:3)",
		netdev_name(subject->port), netdev_name(subject->port));
}

/* A traffic class that reaches the lowest priority with PFC. */
static unsigned good_class(const struct qos *qos)
{
	unsigned priority = lowest_bit(qos->pfc);

	/* 26 is what most guides map to priority 3. */
	if (qos->priority[26] == priority)
		return 106;
	for (unsigned dscp = 0; dscp < 64; dscp++) {
		if (qos->priority[dscp] == priority)
			return dscp << 2 | 2;
	}
	return 0;
}

static void tc_chain(struct exam *exam, const struct subject *subject)
{
	unsigned class, priority;
	struct finding *finding;
	const char *name;
	struct qos qos;

	if (exam->intent == INTENT_LOSSY || !read_qos(exam, subject, &qos) || !qos.pfc ||
	    qos.trust != TRUST_DSCP)
		return;
	class = qos_traffic_class(exam, subject->port, &name);
	priority = qos_priority(&qos, class);
	if (qos.pfc >> priority & 1)
		return;
	finding = found(exam, subject, qos.fact->path,
			"%s -> DSCP %u -> priority %u, but PFC is on for priority %u", name,
			class >> 2, priority, lowest_bit(qos.pfc));
	finding->fix =
		say(exam, "NCCL_IB_TC=%u (DSCP %u)", good_class(&qos), good_class(&qos) >> 2);
}

static void fifo_tc(struct exam *exam, const struct subject *subject)
{
	const struct variable *variable = nccl_variable(&exam->nccl, "NCCL_IB_FIFO_TC");
	unsigned class, priority;
	struct qos qos;

	if (!variable || !variable->value[0] || exam->intent == INTENT_LOSSY ||
	    !read_qos(exam, subject, &qos) || !qos.pfc || qos.trust != TRUST_DSCP)
		return;
	class = (unsigned)nccl_number(&exam->nccl, "NCCL_IB_FIFO_TC", 0) & 0xff;
	priority = qos_priority(&qos, class);
	if (!(qos.pfc >> priority & 1))
		found(exam, subject, variable->where,
		      "NCCL_IB_FIFO_TC=%s -> DSCP %u -> priority %u, which has no PFC",
		      variable->value, class >> 2, priority);
}

static void dcbx(struct exam *exam, const struct subject *subject)
{
	struct finding *finding;
	struct qos qos;
	uint64_t mode;

	qos_read(exam, subject->port, &qos);
	if (!parse_value_number(qos.fact->text, "dcbx", &mode) || (mode & DCBX_HOST))
		return;
	finding = found(exam, subject, qos.fact->path, "mode 0x%02x: the NIC's firmware",
			(unsigned)mode);
	finding->fix = say(exam, "mlnx_qos -i %s -d os (mainline: dcb dcbx set dev %s host ieee)",
			   netdev_name(subject->port), netdev_name(subject->port));
}

static void tc_bits(struct exam *exam, const struct subject *subject)
{
	static const char *const names[] = { "NCCL_IB_TC", "NCCL_IB_FIFO_TC" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct variable *variable = nccl_variable(&exam->nccl, names[i]);
		int64_t value = nccl_number(&exam->nccl, names[i], -1);

		if (!variable || !variable->value[0])
			continue;
		if (value > 255 || value < -1)
			found(exam, subject, variable->where, "%s=%s is no byte", names[i],
			      variable->value);
		else if (value >= 0 && (value & 3) == 3)
			found(exam, subject, variable->where,
			      "%s=%s: the ECN bits say \"congested\"", names[i], variable->value);
		else if (value > 0 && value < 4)
			found(exam, subject, variable->where,
			      "%s=%s is DSCP 0: was the shift forgotten?", names[i],
			      variable->value);
	}
}

static const struct check checks[] = {
	{
		.id = "pfc",
		.severity = SEVERITY_ERROR,
		.impact = 84,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "PFC is off although the fabric is meant to be lossless",
		.healthy = "exactly the RoCE priority",
		.why = "Every full switch buffer drops packets, and RoCE's go-back-N sends a whole window again for each.",
		.fix = "dcb pfc set dev INTERFACE prio-pfc all:off 3:on",
		.explain =
			"Priority flow control pauses one priority of a link instead of dropping. It has to be on for the same priority at every hop. Read over dcbnl, as `dcb pfc show dev INTERFACE` does. Only --intent lossless makes its absence an error: a lossy fabric is a choice.",
		.run = pfc,
	},
	{
		.id = "pfc-many",
		.severity = SEVERITY_WARNING,
		.impact = 48,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "PFC is on for several priorities",
		.healthy = "one",
		.why = "The NIC's buffer is split among lossless priorities: each has less room, and pauses begin earlier; pauses of one tenant hit others.",
		.fix = "mlnx_qos -i INTERFACE --pfc 0,0,0,1,0,0,0,0",
		.explain = "See `pfc`.",
		.run = pfc_many,
	},
	{
		.id = "global-pause",
		.severity = SEVERITY_WARNING,
		.impact = 52,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "global pause is on",
		.healthy = "rx off, tx off",
		.why = "One slow receiver pauses the whole link, all traffic on it, and then the links behind it.",
		.fix = "ethtool -A INTERFACE autoneg off rx off tx off",
		.explain =
			"802.3x pause stops a link as a whole; PFC stops one priority. mlx5 NICs start with global pause on.",
		.run = global_pause,
	},
	{
		.id = "trust",
		.severity = SEVERITY_ERROR,
		.impact = 82,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "the NIC ignores the DSCP",
		.healthy = "trust dscp",
		.why = "Packets without a VLAN tag have no priority bits: all RoCE traffic is in priority 0, past PFC.",
		.fix = "mlnx_qos -i INTERFACE --trust dscp",
		.explain =
			"The NIC takes a packet's priority from the VLAN tag (pcp) or from the IP header (dscp). On mainline mlx5 the first DSCP entry of the APP table switches it (dcb app add dev INTERFACE dscp-prio 26:3).",
		.run = trust,
	},
	{
		.id = "tc-chain",
		.severity = SEVERITY_ERROR,
		.impact = 86,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "NCCL's traffic travels outside the lossless priority",
		.healthy = "traffic class -> DSCP -> a priority with PFC",
		.why = "PFC and ECN are set for one priority and the job's packets are in another: they are dropped under congestion as if nothing were set.",
		.fix = "NCCL_IB_TC=106",
		.explain =
			"NCCL_IB_TC is the whole traffic class byte: DSCP times 4, plus the ECN bits. 106 is DSCP 26 with ECT(0), 104 is DSCP 26 alone. The NIC maps the DSCP to a priority (dcb app show, mlnx_qos), and PFC protects priorities. A communicator's trafficClass takes the place of an unset NCCL_IB_TC, and becomes the SL if NCCL_IB_SL is unset.",
		.run = tc_chain,
	},
	{
		.id = "fifo-tc",
		.severity = SEVERITY_WARNING,
		.impact = 46,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "NCCL's control messages travel outside the lossless priority",
		.healthy = "a priority with PFC, or one that is served strictly",
		.why = "A lost clear-to-send holds a whole collective until the retransmission timer fires.",
		.fix = "unset NCCL_IB_FIFO_TC, or choose a DSCP of a protected priority",
		.explain =
			"NCCL_IB_FIFO_TC is the traffic class of the small messages by which a receiver says that it is ready.",
		.run = fifo_tc,
	},
	{
		.id = "dcbx",
		.severity = SEVERITY_INFO,
		.impact = 29,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "the firmware negotiates PFC with the switch",
		.healthy = "the operating system (bit 0 of the mode)",
		.why = "What is set here may be overwritten by what the switch announces, at any time.",
		.fix = "mlnx_qos -i INTERFACE -d os",
		.explain =
			"DCBX lets neighbours agree on PFC and priorities over LLDP. Either the firmware or the operating system speaks it; settings of dcb and mlnx_qos last only in the second case.",
		.run = dcbx,
	},
	{
		.id = "tc-bits",
		.severity = SEVERITY_WARNING,
		.impact = 54,
		.gates = GATE_NCCL,
		.title = "the traffic class is no sensible byte",
		.healthy = "DSCP times 4, plus 0 or 2",
		.why = "The low two bits are ECN: 3 marks every packet as congested, and each one slows the sender.",
		.fix = "NCCL_IB_TC=$((26 << 2 | 2))",
		.explain = "Guides give DSCP values; the variable wants the byte.",
		.run = tc_bits,
	},
};

const struct check_group checks_qos = CHECK_GROUP(checks);
