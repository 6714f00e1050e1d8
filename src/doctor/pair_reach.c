/* SPDX-License-Identifier: BSD-3-Clause */
/* What gets through between two hosts at all: TCP, UDP, addresses and sizes. */
#include "pair.h"

#include <string.h>

/* Probes beyond this share of which nothing arrived say that nothing can. */
#define PROBES_TO_JUDGE 10u

static void peer(struct pair_exam *exam)
{
	const struct pair *pair = exam->pair;
	struct finding *finding;
	const char *name = pair->there.name;

	switch (pair->peer) {
	case PAIR_PEER_REFUSED:
		finding = pair_found(exam, NULL, "TCP",
				     "%s is up, and nobody listens on its TCP port %u", name,
				     pair->port);
		break;
	case PAIR_PEER_OTHER:
		finding = pair_found(exam, NULL, "TCP", "%s", pair->sentence);
		finding->severity = SEVERITY_WARNING;
		finding->title = "another program waits there: only a part was examined";
		break;
	case PAIR_PEER_SECRET:
		finding = pair_found(exam, NULL, "TCP", "%s", pair->sentence);
		finding->title = "the two ends do not hold the same secret";
		finding->healthy = "both have --secret-file with the same file, or neither";
		finding->fix = "copy the file of godwit secret FILE to both hosts (mode 0600)";
		return;
	default:
		return;
	}
	finding->fix = pair->port == 4791 ? pair_say(exam, "on %s: godwit doctor --serve", name)
					  : pair_say(exam, "on %s: godwit doctor --serve --port %u",
						     name, pair->port);
}

static void tcp(struct pair_exam *exam)
{
	const struct pair *pair = exam->pair;
	const char *name = pair->there.name;
	struct finding *finding;

	if (pair->peer != PAIR_PEER_SILENT && pair->peer != PAIR_PEER_UNREACHABLE)
		return;
	finding = pair_found(exam, NULL, "TCP", "%s", pair->sentence);
	if (pair->peer == PAIR_PEER_UNREACHABLE) {
		finding->fix = pair_say(exam, "ip route get %s; ping %s", name, name);
		return;
	}
	if (pair->icmp == PAIR_ICMP_ANSWERED) {
		finding->title = "a firewall drops TCP";
		finding->value =
			pair_say(exam, "%s answers a UDP probe and is silent on TCP port %u", name,
				 pair->port);
	}
	finding->fix = pair_say(
		exam,
		"on %s: godwit doctor --serve; and open TCP port %u: nft insert rule inet filter input tcp dport %u accept",
		name, pair->port, pair->port);
}

static void tcp_back(struct pair_exam *exam)
{
	const struct pair *pair = exam->pair;
	const struct pair_way way = { &pair->there, &pair->here };
	struct finding *finding;

	if (pair->peer != PAIR_PEER_DOCTOR)
		return;
	if (pair->back == PAIR_BACK_UNKNOWN) {
		pair_unseen(exam, &way, "no port could be opened here for the other host to call");
		return;
	}
	if (pair->back == PAIR_BACK_WORKS)
		return;
	finding = pair_found(
		exam, &way, "TCP", "a connection to port %u of this host %s", pair->back_port,
		pair->back == PAIR_BACK_REFUSED ? "was refused on the way" : "got no answer");
	finding->fix = pair_say(
		exam,
		"let the end on %s wait (recv, perf) and this one call; or here: nft insert rule inet filter input tcp dport %u accept",
		pair->there.name, pair->back_port);
}

static void udp(struct pair_exam *exam, const struct pair_way *way)
{
	const struct pair_sent *sent = &way->from->sent;
	const struct pair_heard *heard = &way->to->heard;
	struct finding *finding;

	if (exam->pair->peer != PAIR_PEER_DOCTOR || pair_heard_any(way))
		return;
	if (sent->packets < PROBES_TO_JUDGE) {
		pair_unseen(exam, way, "no probe could be sent");
		return;
	}
	if (heard->other_packets) {
		finding = pair_found(exam, way, "UDP probes",
				     "none of %u probes to port %u arrived, and %u to port %u",
				     sent->packets, way->to->udp_port, heard->other_packets,
				     way->to->other_port);
		finding->title = "UDP is blocked on this port only";
		finding->fix = pair_say(
			exam,
			"give send, recv and perf --udp-port %u at both ends; or open UDP port %u on %s (an RDMA NIC takes port 4791 for itself)",
			way->to->other_port, way->to->udp_port, way->to->name);
		return;
	}
	finding = pair_found(
		exam, way, "UDP probes", "none of %u probes to ports %u and %u arrived; TCP works",
		sent->packets + sent->other_packets, way->to->udp_port, way->to->other_port);
	finding->fix = pair_say(
		exam,
		"on %s: nft insert rule inet filter input udp dport %u accept; then the firewalls between the two",
		way->to->name, way->to->udp_port);
}

static void nat_of(struct pair_exam *exam, const struct pair_way *way)
{
	const struct pair_end *from = way->from;
	const struct pair_heard *heard = &way->to->heard;
	struct finding *finding;
	bool tcp_moved = from->seen[0] && strcmp(from->seen, from->address) != 0;
	bool udp_moved = heard->source[0] && strcmp(heard->source, from->address) != 0;
	bool port_moved = heard->source_port && heard->source_port != from->udp_port;

	if (exam->pair->peer != PAIR_PEER_DOCTOR || (!tcp_moved && !udp_moved && !port_moved))
		return;
	if (udp_moved || port_moved)
		finding = pair_found(exam, way, "UDP probes",
				     "UDP from %s port %u arrives from %s port %u", from->address,
				     from->udp_port, heard->source, heard->source_port);
	else
		finding = pair_found(exam, way, "TCP", "TCP from %s arrives from %s", from->address,
				     from->seen);
	if (port_moved && !udp_moved && !tcp_moved)
		finding->title = "a NAT changes UDP ports";
	finding->fix = pair_say(
		exam,
		"give %s an address that %s can reach: a VPN, docker run --network host, or a NAT rule that maps UDP port %u both ways unchanged",
		from->name, way->to->name, from->udp_port);
}

static const char *way_out(struct pair_exam *exam, const struct pair_way *way)
{
	return pair_say(exam,
			"on %s: ip route get %s names the interface; ip link set INTERFACE mtu %u",
			way->from->name, way->to->address, way->from->sent.size_arrived);
}

static void black_hole(struct pair_exam *exam, const struct pair_way *way)
{
	const struct pair_sent *sent = &way->from->sent;
	struct finding *finding;

	if (exam->pair->peer != PAIR_PEER_DOCTOR)
		return;
	if (!sent->size_arrived) {
		pair_unseen(exam, way, "no probe of any size arrived");
		return;
	}
	if (!sent->size_lost || sent->icmp_mtu)
		return;
	finding = pair_found(
		exam, way, "UDP probes of rising size",
		"packets up to %u bytes arrive, larger ones vanish without a message; the interface sends up to %u",
		sent->size_arrived, way->from->mtu);
	finding->fix = pair_say(exam, "%s; or for TCP: sysctl -w net.ipv4.tcp_mtu_probing=1",
				way_out(exam, way));
}

static void mtu(struct pair_exam *exam, const struct pair_way *way)
{
	const struct pair_sent *sent = &way->from->sent;
	struct finding *finding;

	if (exam->pair->peer != PAIR_PEER_DOCTOR || !sent->size_arrived || !sent->size_lost ||
	    !sent->icmp_mtu)
		return;
	finding = pair_found(
		exam, way, "UDP probes of rising size, and ICMP",
		"the path carries %u bytes, the interface sends up to %u; a router said %u",
		sent->size_arrived, way->from->mtu, sent->icmp_mtu);
	finding->fix = way_out(exam, way);
}

const struct pair_check pair_checks_reach[] = {
	{ .words = { .id = "path-peer",
		     .severity = SEVERITY_ERROR,
		     .impact = 100,
		     .title = "nobody waits on the other host",
		     .healthy = "godwit doctor --serve waits there",
		     .why = "Both directions of a path can be measured only with somebody at the other end.",
		     .fix = "on the other host: godwit doctor --serve",
		     .explain =
			     "The other end answered on TCP, or its host refused the connection. Against a waiting recv or perf only what the host's kernel answers can be learned: TCP, and UDP probes to a closed port that come back as ICMP." },
	  .pair = peer },
	{ .words = { .id = "path-tcp",
		     .severity = SEVERITY_ERROR,
		     .impact = 98,
		     .title = "TCP does not get through",
		     .healthy = "a connection in one round trip",
		     .why = "Ends of a transfer meet over TCP (port 4791 unless told); NCCL's bootstrap uses TCP, too.",
		     .fix = "ip route get HOST; ping HOST",
		     .explain =
			     "No answer at all means a firewall that drops, or a host that is down; \"no route\" means that this host or a router knows no way. A UDP probe that comes back as ICMP shows that the host is up." },
	  .pair = tcp },
	{ .words = { .id = "path-tcp-back",
		     .severity = SEVERITY_WARNING,
		     .impact = 60,
		     .title = "TCP works in one direction only",
		     .healthy = "each host can call the other",
		     .why = "A transfer works if the right end waits; NCCL and MPI need connections both ways.",
		     .fix = "let the reachable end wait",
		     .explain =
			     "The other host tried to connect to a port that this one had opened for it: that of the rendezvous (4791), or a free one if that is in use." },
	  .pair = tcp_back },
	{ .words = { .id = "path-udp",
		     .severity = SEVERITY_ERROR,
		     .impact = 95,
		     .title = "UDP is blocked",
		     .healthy = "probes arrive",
		     .why = "Data travels in UDP packets (RoCEv2). Both directions are needed: the other one carries acknowledgements.",
		     .fix = "open the UDP port",
		     .explain =
			     "Some 750 small probes each way between the two ends' UDP ports (4791 unless told), and a few between free ports. What TCP reports of the other end's count says which direction is blocked, and whether it is the port. An RDMA NIC with RoCE takes packets to port 4791 itself, before the kernel sees them." },
	  .way = udp },
	{ .words = { .id = "path-nat",
		     .severity = SEVERITY_ERROR,
		     .impact = 90,
		     .title = "a NAT changes addresses",
		     .healthy = "packets arrive with the address and port that they left with",
		     .why = "Queue pairs know each other by address and port; packets from another one are discarded. An RDMA NIC cannot pass a NAT at all.",
		     .fix = "give both hosts addresses that the other can reach",
		     .explain =
			     "Each end tells its own address and port over TCP, and the other compares them with the source of what it hears. Containers on a bridge and virtual machines with user-mode networking are behind a NAT, too." },
	  .way = nat_of },
	{ .words = { .id = "path-black-hole",
		     .severity = SEVERITY_ERROR,
		     .impact = 85,
		     .title = "large packets vanish",
		     .healthy =
			     "the path carries what the interface sends, or a router says by ICMP that it does not",
		     .why = "TCP connections open and then hang with the first full segment. Godwit finds the size that passes, RDMA NICs do not.",
		     .fix = "ip link set INTERFACE mtu N",
		     .explain =
			     "Probes of rising size that may not be fragmented, three of each, then a search between the largest that arrived and the smallest that did not. Common causes: a switch port with a smaller MTU than the hosts (1500 among 9000), a tunnel, a firewall that drops ICMP type 3 code 4 (IPv6: type 2)." },
	  .way = black_hole },
	{ .words = { .id = "path-mtu",
		     .severity = SEVERITY_WARNING,
		     .impact = 45,
		     .title = "the path carries smaller packets than the interface",
		     .healthy = "the MTU of the interface",
		     .why = "RDMA NICs do not find a path's MTU: packets of the size that the interface allows are lost.",
		     .fix = "ip link set INTERFACE mtu N",
		     .explain =
			     "As path-black-hole, on a path where a router says so. TCP and Godwit adapt." },
	  .way = mtu },
};

const size_t pair_checks_reach_count = sizeof(pair_checks_reach) / sizeof(pair_checks_reach[0]);
