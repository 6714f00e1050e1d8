/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks on results of the mesh. A host is judged by the median over its peers, so that one bad link does not make a host
 * slow; a link is judged against the medians of its two ends, so that a slow host does not make its links slow once more.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster.h"

/* Below this share of what the others reach, something is slow. */
#define SLOW_SHARE 0.8
/* Loss that is worth a word, and that is an error. */
#define LOSS_TOLD  1e-5
#define LOSS_ERROR 1e-3
/* Latency outliers: twice the others', and at least this much more. */
#define LATENCY_TIMES	2.0
#define LATENCY_MORE_US 20.0
#define HOSTS_LEAST	3u
#define LINKS_TOLD	5u

/* Medians of one host. */
struct host_view {
	double out_bps;
	double in_bps;
	double out_loss;
	double in_loss;
	double latency_us;
	/* share of the rate alone that is left when all send */
	double share;
};

struct view {
	const struct mesh *mesh;
	struct host_view *hosts;
	struct host_view all;
};

enum quantity { OUT_BPS, IN_BPS, OUT_LOSS, IN_LOSS, LATENCY, SHARE, QUANTITIES };

static int by_value(const void *a, const void *b)
{
	const double *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

/* Sorts; returns -1 for nothing. */
static double median(double *values, size_t count)
{
	if (!count)
		return -1;
	qsort(values, count, sizeof(values[0]), by_value);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static double quantity_of(const struct mesh_pair *pair, enum quantity quantity)
{
	switch (quantity) {
	case OUT_BPS:
	case IN_BPS:
		return pair->alone_bps;
	case OUT_LOSS:
	case IN_LOSS:
		return pair->loss;
	case LATENCY:
		return pair->latency_us;
	case SHARE:
	default:
		return pair->alone_bps > 0 && pair->together_bps >= 0
			       ? pair->together_bps / pair->alone_bps
			       : -1;
	}
}

static double *field_of(struct host_view *host, enum quantity quantity)
{
	double *const fields[QUANTITIES] = { &host->out_bps, &host->in_bps,	&host->out_loss,
					     &host->in_loss, &host->latency_us, &host->share };

	return fields[quantity];
}

static bool of_host(const struct mesh_pair *pair, uint32_t host, enum quantity quantity)
{
	if (quantity == IN_BPS || quantity == IN_LOSS)
		return pair->to == host;
	return pair->from == host || (quantity == LATENCY && pair->to == host);
}

/* Pairs grouped by host, so that each host's are looked at once. */
static void fill_quantity(struct view *view, enum quantity quantity, double *values,
			  const uint32_t *const order[2], const uint32_t *const first[2])
{
	const struct mesh *mesh = view->mesh;
	size_t count = 0;

	for (uint32_t i = 0; i < mesh->pair_count; i++) {
		double value = quantity_of(&mesh->pairs[i], quantity);

		if (value >= 0)
			values[count++] = value;
	}
	*field_of(&view->all, quantity) = median(values, count);
	for (uint32_t host = 0; host < mesh->host_count; host++) {
		count = 0;
		for (unsigned side = 0; side < 2; side++) {
			for (uint32_t i = first[side][host]; i < first[side][host + 1]; i++) {
				const struct mesh_pair *pair = &mesh->pairs[order[side][i]];
				double value = quantity_of(pair, quantity);

				if (value >= 0 && of_host(pair, host, quantity))
					values[count++] = value;
			}
		}
		*field_of(&view->hosts[host], quantity) = median(values, count);
	}
}

/* Sorts the pairs' positions by sender (side 0) or receiver (side 1). */
static void order_pairs(const struct mesh *mesh, unsigned side, uint32_t *order, uint32_t *first)
{
	for (uint32_t i = 0; i < mesh->pair_count; i++)
		first[(side ? mesh->pairs[i].to : mesh->pairs[i].from) + 1]++;
	for (uint32_t host = 0; host < mesh->host_count; host++)
		first[host + 1] += first[host];
	for (uint32_t i = mesh->pair_count; i-- > 0;)
		order[--first[(side ? mesh->pairs[i].to : mesh->pairs[i].from) + 1]] = i;
	/* The counts moved one place down while they were used. */
	for (uint32_t host = 0; host < mesh->host_count; host++)
		first[host] = first[host + 1];
	first[mesh->host_count] = mesh->pair_count;
}

static bool view_make(struct exam *exam, struct view *view)
{
	const struct mesh *mesh = &exam->cluster->mesh;
	struct scratch scratch = { 0 };
	uint32_t *order[2], *first[2];
	double *values;

	if (!exam->cluster->meshed)
		return false;
	*view = (struct view){ .mesh = mesh };
	view->hosts =
		scratch_alloc(&exam->diagnosis->scratch, mesh->host_count * sizeof(view->hosts[0]));
	values = scratch_alloc(&scratch, ((size_t)mesh->pair_count + 1) * 2 * sizeof(values[0]));
	for (unsigned side = 0; side < 2; side++) {
		order[side] =
			scratch_alloc(&scratch, ((size_t)mesh->pair_count + 1) * sizeof(uint32_t));
		first[side] =
			scratch_alloc(&scratch, ((size_t)mesh->host_count + 2) * sizeof(uint32_t));
		order_pairs(mesh, side, order[side], first[side]);
	}
	for (enum quantity quantity = OUT_BPS; quantity < QUANTITIES; quantity++)
		fill_quantity(view, quantity, values,
			      (const uint32_t *const[]){ order[0], order[1] },
			      (const uint32_t *const[]){ first[0], first[1] });
	scratch_free(&scratch);
	return true;
}

static struct finding *mesh_found(struct exam *exam, const char *object, const char *value)
{
	struct finding *finding = check_finding(exam->check, exam->diagnosis);

	/* Names are the mesh's, which may go before the diagnosis. */
	finding->object = say(exam, "%s", object);
	finding->value = value;
	finding->where = say(exam, "%s", exam->cluster->mesh.file);
	finding->brief = say(exam, "%s%s %s", object, strstr(object, " -> ") ? ":" : "", value);
	return finding;
}

static double gbps(double bps)
{
	return bps / 1e9;
}

static bool slow(double value, double others)
{
	return value >= 0 && others > 0 && value < SLOW_SHARE * others;
}

static void check_host(struct exam *exam, const struct subject *subject)
{
	struct view view;

	if (!view_make(exam, &view) || view.mesh->host_count < HOSTS_LEAST)
		return;
	for (uint32_t i = 0; i < view.mesh->host_count; i++) {
		const struct host_view *host = &view.hosts[i];

		if (slow(host->out_bps, view.all.out_bps) && slow(host->in_bps, view.all.in_bps))
			mesh_found(
				exam, view.mesh->hosts[i],
				say(exam,
				    "sends %.3g and receives %.3g Gbit/s, where the hosts have %.3g",
				    gbps(host->out_bps), gbps(host->in_bps),
				    gbps(view.all.out_bps)));
	}
}

static void check_asymmetry(struct exam *exam, const struct subject *subject)
{
	struct view view;

	if (!view_make(exam, &view) || view.mesh->host_count < HOSTS_LEAST)
		return;
	for (uint32_t i = 0; i < view.mesh->host_count; i++) {
		const struct host_view *host = &view.hosts[i];
		bool out = slow(host->out_bps, view.all.out_bps);
		bool in = slow(host->in_bps, view.all.in_bps);

		if (out != in)
			mesh_found(exam, view.mesh->hosts[i],
				   say(exam,
				       "%s %.3g Gbit/s and %s %.3g, where the hosts have %.3g",
				       out ? "sends" : "receives",
				       gbps(out ? host->out_bps : host->in_bps),
				       out ? "receives" : "sends",
				       gbps(out ? host->in_bps : host->out_bps),
				       gbps(view.all.out_bps)));
	}
}

static const char *pair_name(struct exam *exam, const struct mesh_pair *pair)
{
	const struct mesh *mesh = &exam->cluster->mesh;

	return say(exam, "%s -> %s", mesh->hosts[pair->from], mesh->hosts[pair->to]);
}

static void check_link(struct exam *exam, const struct subject *subject)
{
	struct view view;
	unsigned told = 0;

	if (!view_make(exam, &view) || view.mesh->host_count < HOSTS_LEAST)
		return;
	for (uint32_t i = 0; i < view.mesh->pair_count && told < LINKS_TOLD; i++) {
		const struct mesh_pair *pair = &view.mesh->pairs[i];
		double from = view.hosts[pair->from].out_bps, to = view.hosts[pair->to].in_bps;
		double expected = from < to ? from : to;

		if (!slow(pair->alone_bps, expected))
			continue;
		told++;
		mesh_found(exam, pair_name(exam, pair),
			   say(exam, "%.3g Gbit/s, where both ends reach %.3g with others",
			       gbps(pair->alone_bps), gbps(expected)));
	}
}

/* Source ports of a pair that lose packets while others do not. */
static const char *bad_ports(struct exam *exam, const struct mesh_pair *pair)
{
	unsigned bad = 0, known = 0, worst = 0;

	for (unsigned i = 0; i < pair->port_count; i++) {
		if (pair->ports[i].loss < 0)
			continue;
		known++;
		bad += pair->ports[i].loss >= LOSS_TOLD;
		if (pair->ports[i].loss > pair->ports[worst].loss)
			worst = i;
	}
	if (!bad || bad == known)
		return "";
	return say(exam, " on %u of %u paths (source port %u: %.2g %%)", bad, known,
		   pair->ports[worst].source_port, pair->ports[worst].loss * 100);
}

static void loss_found(struct exam *exam, const char *object, const char *value, double loss)
{
	struct finding *finding = mesh_found(exam, object, value);

	if (loss < LOSS_ERROR)
		finding->severity = SEVERITY_WARNING;
}

static void check_loss(struct exam *exam, const struct subject *subject)
{
	struct view view;
	unsigned told = 0;

	if (!view_make(exam, &view))
		return;
	for (uint32_t i = 0; i < view.mesh->host_count; i++) {
		const struct host_view *host = &view.hosts[i];

		/* With two hosts, the pair says it. */
		if (view.mesh->host_count < HOSTS_LEAST)
			break;
		if (host->out_loss >= LOSS_TOLD && host->in_loss >= LOSS_TOLD)
			loss_found(
				exam, view.mesh->hosts[i],
				say(exam,
				    "loses %.2g %% of what it sends and %.2g %% of what it receives",
				    host->out_loss * 100, host->in_loss * 100),
				host->out_loss);
		else if (host->out_loss >= LOSS_TOLD)
			loss_found(
				exam, view.mesh->hosts[i],
				say(exam, "loses %.2g %% of what it sends", host->out_loss * 100),
				host->out_loss);
		else if (host->in_loss >= LOSS_TOLD)
			loss_found(exam, view.mesh->hosts[i],
				   say(exam, "loses %.2g %% of what is sent to it",
				       host->in_loss * 100),
				   host->in_loss);
	}
	for (uint32_t i = 0; i < view.mesh->pair_count && told < LINKS_TOLD; i++) {
		const struct mesh_pair *pair = &view.mesh->pairs[i];
		bool alone = view.mesh->host_count < HOSTS_LEAST ||
			     (view.hosts[pair->from].out_loss < LOSS_TOLD &&
			      view.hosts[pair->to].in_loss < LOSS_TOLD);

		if (pair->loss < LOSS_TOLD || !alone)
			continue;
		told++;
		loss_found(exam, pair_name(exam, pair),
			   say(exam, "%.2g %% lost%s", pair->loss * 100, bad_ports(exam, pair)),
			   pair->loss);
	}
}

static void check_saturated(struct exam *exam, const struct subject *subject)
{
	struct view view;

	if (!view_make(exam, &view) || view.all.share < 0)
		return;
	if (view.all.share < SLOW_SHARE) {
		mesh_found(
			exam, "the fabric",
			say(exam,
			    "keeps %.0f %% of the rate when all hosts send at once (%.3g of %.3g Gbit/s)",
			    view.all.share * 100, gbps(view.all.out_bps * view.all.share),
			    gbps(view.all.out_bps)));
	}
	for (uint32_t i = 0; i < view.mesh->host_count; i++) {
		const struct host_view *host = &view.hosts[i];

		if (slow(host->share, view.all.share))
			mesh_found(
				exam, view.mesh->hosts[i],
				say(exam,
				    "%.3g of %.3g Gbit/s are left when all send (%.0f %%; the hosts keep %.0f %%)",
				    gbps(host->out_bps * host->share), gbps(host->out_bps),
				    host->share * 100, view.all.share * 100));
	}
}

static void check_latency(struct exam *exam, const struct subject *subject)
{
	struct view view;

	if (!view_make(exam, &view) || view.mesh->host_count < HOSTS_LEAST)
		return;
	for (uint32_t i = 0; i < view.mesh->host_count; i++) {
		double own = view.hosts[i].latency_us, all = view.all.latency_us;

		if (all > 0 && own > LATENCY_TIMES * all && own > all + LATENCY_MORE_US)
			mesh_found(exam, view.mesh->hosts[i],
				   say(exam, "answers in %.3g us, where the hosts have %.3g", own,
				       all));
	}
}

static const struct check checks[] = {
	{ "mesh-host", SEVERITY_ERROR, 76, SCOPE_CLUSTER, GATE_NONE, "a host is slow both ways",
	  "every host near the median", "A ring runs at the pace of its slowest member.",
	  "godwit doctor on that host: port-rate, pcie-link, mtu; swap its cable or switch port",
	  "A link that came up at a lower rate, a NIC in a narrow PCIe slot, a CPU that saves power.",
	  check_host },
	{ "mesh-asymmetry", SEVERITY_ERROR, 75, SCOPE_CLUSTER, GATE_NONE,
	  "a host is slow in one direction", "the same rate both ways",
	  "Half of a ring's traffic is enough to slow all of it.",
	  "counters of that port on both sides: rx_discards_phy, CRC errors; one fibre of a pair; flow control that is on at one end",
	  "Dirty optics damage one direction; pause frames stop one.", check_asymmetry },
	{ "mesh-link", SEVERITY_WARNING, 69, SCOPE_CLUSTER, GATE_NONE,
	  "a path between two hosts is slow", "what both ends reach with others",
	  "Pairs that a ring or tree puts next to each other run at that rate.",
	  "the switches between the two hosts: an uplink at a lower rate, or one that many flows share; several queue pairs (NCCL_IB_QPS_PER_CONNECTION=4) spread over more paths",
	  "One bad uplink, or flows that the switches' hash puts onto one link.", check_link },
	{ "mesh-loss", SEVERITY_ERROR, 71, SCOPE_CLUSTER, GATE_NONE, "packets are lost", "no loss",
	  "RDMA sends whole windows again for one lost packet; above some 0.1 % it collapses.",
	  "counters of NICs and switch ports on the way; PFC on the whole path; if it cannot be lossless, godwit plan says what to use",
	  "Loss on all pairs of a host is its own link; on one source port only, one of several paths between switches.",
	  check_loss },
	{ "mesh-saturated", SEVERITY_WARNING, 68, SCOPE_CLUSTER, GATE_NONE,
	  "links saturate when all hosts send", "nearly the rate that a pair has alone",
	  "Collectives send from all hosts at once: what is left then is the rate that counts.",
	  "uplinks that are oversubscribed; rails and job placement (ranks of a ring in one rack); more paths per connection",
	  "Compares together_bps with alone_bps.", check_saturated },
	{ "mesh-latency", SEVERITY_WARNING, 48, SCOPE_CLUSTER, GATE_NONE, "a host answers late",
	  "latency near the median", "Small collectives wait for the slowest answer.",
	  "godwit doctor --only cpu-governor,numa-node on that host; what else runs there",
	  "A CPU that saves power, interrupts on the wrong socket, a busy host.", check_latency },
};

const struct check_group checks_mesh = CHECK_GROUP(checks);
