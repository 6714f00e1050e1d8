/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps: names and ports; round trips over TCP; an even stream of small probes both ways, with marked ones and some
 * between other ports among them; sizes, in rounds that close in on the path's MTU; rates (pair_rate.c); what each end
 * counted.
 */
#include "pair_session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair_run.h"

#define WHOLE_NS      (30000 * NS_PER_MS)
#define PINGS	      3u
#define OPEN_PACKETS  12u
#define STREAM_GAP_NS (2 * NS_PER_MS)
#define STREAM_BYTES  92u
#define MARK_EVERY    4u
#define OTHER_EVERY   16u
#define SIZE_ROUNDS   4u
#define SIZE_COPIES   3u
#define SIZE_GAP_NS   (5 * NS_PER_MS)
/* Time that probes may be behind a message over TCP. */
#define SLACK_LEAST_NS	  (30 * NS_PER_MS)
#define SLACK_MOST_NS	  (400 * NS_PER_MS)
#define PORT_UNPRIVILEGED 1024u

static json_t *token_json(const uint8_t token[PROBE_TOKEN])
{
	char text[2 * PROBE_TOKEN + 1];

	for (unsigned i = 0; i < PROBE_TOKEN; i++)
		snprintf(text + 2 * i, 3, "%02x", token[i]);
	return json_string(text);
}

static bool token_read(const json_t *object, uint8_t out[PROBE_TOKEN])
{
	char text[PAIR_TEXT];

	pair_member_text(object, "token", text);
	if (strlen(text) != 2 * PROBE_TOKEN || strspn(text, "0123456789abcdef") != 2 * PROBE_TOKEN)
		return false;
	for (unsigned i = 0; i < PROBE_TOKEN; i++) {
		char byte[3] = { text[2 * i], text[2 * i + 1], '\0' };

		out[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return true;
}

static int say_hello(struct pair_run *run)
{
	const struct pair_end *own = &run->pair->here;

	return pair_say_message(
		&run->talk, PAIR_HELLO,
		json_pack("{s:s, s:s, s:s, s:o, s:i, s:i, s:I, s:I, s:I, s:i}", "name", own->name,
			  "address", own->address, "you",
			  gw_rendezvous_remote(run->session->rendezvous), "token",
			  token_json(run->probe.token_in), "udp_port", own->udp_port, "other_port",
			  own->other_port, "mtu", (json_int_t)own->mtu, "receive_buffer",
			  (json_int_t)own->receive_buffer, "send_buffer",
			  (json_int_t)own->send_buffer, "back_port", run->session->back_port));
}

static int hear_hello(struct pair_run *run)
{
	struct pair_end *peer = &run->pair->there;
	json_t *hello;
	int rc = pair_hear_message(&run->talk, PAIR_HELLO, &hello);

	if (rc)
		return rc;
	if (!peer->name[0])
		pair_member_text(hello, "name", peer->name);
	pair_member_text(hello, "address", peer->address);
	pair_member_text(hello, "you", run->pair->here.seen);
	peer->udp_port = (uint16_t)pair_member(hello, "udp_port", UINT16_MAX, 0);
	peer->other_port = (uint16_t)pair_member(hello, "other_port", UINT16_MAX, 0);
	peer->mtu = (uint32_t)pair_member(hello, "mtu", UINT16_MAX, 0);
	peer->receive_buffer = pair_member(hello, "receive_buffer", UINT32_MAX, 0);
	peer->send_buffer = pair_member(hello, "send_buffer", UINT32_MAX, 0);
	if (!run->session->caller)
		run->pair->back_port = (uint16_t)pair_member(hello, "back_port", UINT16_MAX, 0);
	if (!token_read(hello, run->probe.token_out))
		rc = -EPROTO;
	json_decref(hello);
	return rc;
}

/* Opens a connection back to the caller, at the address that it has proven to have. */
static void call_back(struct pair_run *run)
{
	union probe_address to = run->probe.peer[0];
	uint16_t port = run->pair->back_port;
	bool four = to.any.sa_family == AF_INET;

	if (port < PORT_UNPRIVILEGED)
		return;
	run->back_fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (four)
		to.in.sin_port = htons(port);
	else
		to.in6.sin6_port = htons(port);
	if (run->back_fd >= 0)
		(void)!connect(run->back_fd, &to.any, four ? sizeof(to.in) : sizeof(to.in6));
}

static enum pair_back back_state(struct pair_run *run)
{
	struct pollfd fd = { .fd = run->back_fd, .events = POLLOUT };
	socklen_t length = sizeof(int);
	int error = 0;

	if (run->back_fd < 0)
		return PAIR_BACK_UNKNOWN;
	if (poll(&fd, 1, 0) <= 0)
		return PAIR_BACK_SILENT;
	getsockopt(run->back_fd, SOL_SOCKET, SO_ERROR, &error, &length);
	return error == 0 ? PAIR_BACK_WORKS : PAIR_BACK_REFUSED;
}

static int open_ends(struct pair_run *run)
{
	const struct pair_session *session = run->session;
	struct pair_end *own = &run->pair->here;
	int rc;

	snprintf(own->address, sizeof(own->address), "%s",
		 gw_rendezvous_local(session->rendezvous));
	rc = probe_open(&run->probe, own, own->address, session->udp_port,
			gw_rendezvous_remote(session->rendezvous));
	own->address[strcspn(own->address, "%")] = '\0';
	if (rc)
		return rc;
	if (getrandom(run->probe.token_in, PROBE_TOKEN, 0) != PROBE_TOKEN)
		return -EIO;
	if (session->caller) {
		rc = say_hello(run);
		rc = rc ? rc : hear_hello(run);
	} else {
		rc = hear_hello(run);
		rc = rc ? rc : say_hello(run);
	}
	if (rc)
		return rc;
	snprintf(run->pair->there.seen, sizeof(run->pair->there.seen), "%s",
		 gw_rendezvous_remote(session->rendezvous));
	run->pair->there.seen[strcspn(run->pair->there.seen, "%")] = '\0';
	run->pair->here.seen[strcspn(run->pair->here.seen, "%")] = '\0';
	rc = probe_connect(&run->probe, gw_rendezvous_remote(session->rendezvous),
			   run->pair->there.udp_port, run->pair->there.other_port);
	if (rc == 0 && !session->caller)
		call_back(run);
	run->talk.probe = &run->probe;
	return rc;
}

int pair_exchange(struct pair_run *run, enum pair_message kind, json_t *mine, json_t **out)
{
	int rc = pair_say_message(&run->talk, kind, mine);

	return rc ? rc : pair_hear_message(&run->talk, kind, out);
}

int pair_meet(struct pair_run *run, enum pair_message kind)
{
	json_t *theirs;
	int rc = pair_exchange(run, kind, json_object(), &theirs);

	if (rc == 0)
		json_decref(theirs);
	return rc;
}

/* The caller speaks first, so that a round trip lies between its word and the answer. */
static int ping(struct pair_run *run)
{
	for (unsigned i = 0; i < PINGS; i++) {
		uint64_t began = pair_clock_now(), took;
		json_t *theirs;
		int rc;

		if (run->session->caller) {
			rc = pair_exchange(run, PAIR_PING, json_object(), &theirs);
		} else {
			rc = pair_hear_message(&run->talk, PAIR_PING, &theirs);
			if (rc == 0)
				rc = pair_say_message(&run->talk, PAIR_PING, json_object());
		}
		if (rc)
			return rc;
		json_decref(theirs);
		took = pair_clock_now() - began;
		if (i && (!run->pair->tcp_rtt_ns || took < run->pair->tcp_rtt_ns))
			run->pair->tcp_rtt_ns = took;
	}
	return 0;
}

/* Makes a NAT choose its port, and learns the other end's. */
static int open_way(struct pair_run *run)
{
	int rc;

	for (uint32_t i = 0; i < OPEN_PACKETS; i++) {
		probe_send(&run->probe, i % 2, PROBE_OPEN, i, STREAM_BYTES, 0);
		pair_wait(&run->talk, pair_clock_now() + STREAM_GAP_NS);
	}
	rc = pair_meet(run, PAIR_SENT);
	if (rc == 0)
		pair_wait(&run->talk, pair_clock_now() + SLACK_LEAST_NS);
	return rc;
}

static int stream(struct pair_run *run)
{
	struct pair_sent *sent = &run->pair->here.sent;
	uint64_t began = pair_clock_now();
	int rc;

	for (uint32_t i = 0; i < STREAM_PACKETS; i++) {
		sent->packets += probe_send(&run->probe, 0, PROBE_STREAM, i, STREAM_BYTES, 0);
		if (i % MARK_EVERY == 0)
			sent->marked[i / MARK_EVERY % PAIR_MARKS] +=
				probe_send(&run->probe, 0, PROBE_MARK, i, STREAM_BYTES,
					   i / MARK_EVERY % PAIR_MARKS);
		if (i % OTHER_EVERY == 0)
			sent->other_packets +=
				probe_send(&run->probe, 1, PROBE_OTHER, i, STREAM_BYTES, 0);
		pair_wait(&run->talk, began + (i + 1) * STREAM_GAP_NS);
	}
	rc = pair_meet(run, PAIR_SENT);
	if (rc)
		return rc;
	pair_wait(&run->talk, pair_clock_now() + SLACK_MOST_NS / 4);
	probe_finish_stream(&run->probe, &run->pair->rtt_min_ns, &run->pair->rtt_ns);
	run->slack_ns = SLACK_LEAST_NS + (uint64_t)(run->pair->here.heard.delay_p90_ns -
						    run->pair->here.heard.delay_p10_ns) *
						 3;
	if (run->slack_ns > SLACK_MOST_NS)
		run->slack_ns = SLACK_MOST_NS;
	return 0;
}

/* Tells the other end what arrived. Large probes take the port that works. */
static int compare_streams(struct pair_run *run)
{
	json_t *theirs;
	int rc;

	if (!run->session->caller)
		run->pair->back = back_state(run);
	rc = pair_exchange(run, PAIR_HEARD,
			   json_pack("{s:o, s:i}", "heard", pair_heard_json(&run->pair->here.heard),
				     "back", run->pair->back),
			   &theirs);
	if (rc)
		return rc;
	pair_heard_read(json_object_get(theirs, "heard"), &run->pair->there.heard);
	if (run->session->caller)
		run->pair->back = (enum pair_back)pair_member(theirs, "back", PAIR_BACK_SILENT, 0);
	json_decref(theirs);
	run->probe.use = !run->pair->there.heard.packets && run->pair->there.heard.other_packets;
	return 0;
}

bool pair_gets_through(const struct pair_run *run)
{
	return run->pair->there.heard.packets || run->pair->there.heard.other_packets;
}

/* Learns from the other end's list which sizes arrived. */
static void learn_sizes(struct pair_sent *sent, const uint32_t *tried, unsigned count,
			const json_t *list)
{
	uint32_t largest = sent->size_arrived;

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_int_t size = json_integer_value(json_array_get(list, i));

		for (unsigned j = 0; j < count; j++) {
			if (size == (json_int_t)tried[j] && tried[j] > largest)
				largest = tried[j];
		}
	}
	sent->size_arrived = largest;
	for (unsigned j = 0; j < count; j++) {
		if (tried[j] > largest && (!sent->size_lost || tried[j] < sent->size_lost))
			sent->size_lost = tried[j];
	}
}

/* One round: returns 1 if either end tried something, 0 if both are done, -errno. */
static int try_sizes(struct pair_run *run)
{
	struct pair_sent *sent = &run->pair->here.sent;
	uint32_t most = run->pair->here.mtu < UINT16_MAX ? run->pair->here.mtu : UINT16_MAX;
	uint32_t tried[PAIR_SIZES_MAX];
	unsigned count = pair_gets_through(run) ? pair_sizes(sent->size_arrived, sent->size_lost,
							     most ? most : 1500, tried)
						: 0;
	uint64_t began = pair_clock_now();
	json_t *theirs, *list = json_array();
	int rc, more;

	for (unsigned copy = 0; copy < SIZE_COPIES; copy++) {
		for (unsigned i = 0; i < count; i++)
			probe_send(&run->probe, run->probe.use, PROBE_SIZE, i, tried[i], 0);
		if (count)
			pair_wait(&run->talk, began + (copy + 1) * SIZE_GAP_NS);
	}
	rc = pair_exchange(run, PAIR_SENT, json_pack("{s:i}", "tried", (int)count), &theirs);
	if (rc) {
		json_decref(list);
		return rc;
	}
	more = count || pair_member(theirs, "tried", PAIR_SIZES_MAX, 0) > 0;
	json_decref(theirs);
	pair_wait(&run->talk, pair_clock_now() + run->slack_ns);
	for (unsigned i = 0; i < run->probe.size_count; i++)
		json_array_append_new(list, json_integer(run->probe.sizes[i]));
	run->probe.size_count = 0;
	rc = pair_exchange(run, PAIR_HEARD, json_pack("{s:o}", "sizes", list), &theirs);
	if (rc)
		return rc;
	learn_sizes(sent, tried, count, json_object_get(theirs, "sizes"));
	json_decref(theirs);
	return more;
}

static int compare_results(struct pair_run *run)
{
	json_t *theirs;
	int rc =
		pair_exchange(run, PAIR_RESULT,
			      json_pack("{s:o, s:o}", "sent", pair_sent_json(&run->pair->here.sent),
					"heard", pair_heard_json(&run->pair->here.heard)),
			      &theirs);

	if (rc)
		return rc;
	pair_sent_read(json_object_get(theirs, "sent"), &run->pair->there.sent);
	pair_heard_read(json_object_get(theirs, "heard"), &run->pair->there.heard);
	json_decref(theirs);
	return 0;
}

static int examine(struct pair_run *run)
{
	uint64_t rate_bps = 0;
	int rc = open_ends(run);

	rc = rc ? rc : ping(run);
	rc = rc ? rc : open_way(run);
	rc = rc ? rc : stream(run);
	rc = rc ? rc : compare_streams(run);
	for (unsigned round = 0; rc == 0 && round < SIZE_ROUNDS; round++) {
		rc = try_sizes(run);
		if (rc == 0)
			break;
		rc = rc < 0 ? rc : 0;
	}
	rc = rc ? rc : pair_train(run, &rate_bps);
	rc = rc ? rc : pair_bulk(run, run->session->caller, rate_bps);
	rc = rc ? rc : pair_bulk(run, !run->session->caller, rate_bps);
	return rc ? rc : compare_results(run);
}

int pair_session_run(const struct pair_session *session, struct pair *pair)
{
	struct pair_run *run = calloc(1, sizeof(*run));
	int rc;

	if (!run)
		return -ENOMEM;
	run->session = session;
	run->pair = pair;
	run->back_fd = run->probe.fd[0] = run->probe.fd[1] = -1;
	run->talk = (struct pair_talk){ .rendezvous = session->rendezvous,
					.interrupt_fd = session->interrupt_fd,
					.deadline_ns = pair_clock_now() + WHOLE_NS };
	if (session->caller)
		pair->back_port = session->back_port;
	rc = examine(run);
	probe_close(&run->probe);
	if (run->back_fd >= 0)
		close(run->back_fd);
	free(run);
	return rc;
}
