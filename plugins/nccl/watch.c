/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits for what: a warning after 30 s, an answer to those who ask, and statistics. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "state.h"

#define WARN_NS	      (30 * NS_PER_SECOND)
#define EXPLAIN_BYTES 512
#define STATS_BYTES   (256u << 10)

struct text {
	char *at;
	size_t size, used;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *text, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text->at + text->used, text->size - text->used, format, args);
	va_end(args);
	if (n > 0)
		text->used = text->used + (size_t)n < text->size ? text->used + (size_t)n
								 : text->size - 1;
}

/* The oldest request that has not ended, and how many there are. */
static struct request *oldest(struct connection *c, unsigned *open)
{
	struct request *found = NULL;

	*open = 0;
	for (unsigned i = 0; i < NCCL_REQUESTS; i++) {
		struct request *r = &c->request[i];
		int state = atomic_load(&r->state);

		if (state != REQUEST_QUEUED && state != REQUEST_OPEN)
			continue;
		++*open;
		if (!found || atomic_load(&r->since_ns) < atomic_load(&found->since_ns))
			found = r;
	}
	return found;
}

static void explain(const struct connection *c, char out[EXPLAIN_BYTES])
{
	out[0] = '\0';
	if (gw_service_enter(c->endpoint->service, c->index))
		return;
	if (c->channel)
		gw_channel_explain(c->channel, out, EXPLAIN_BYTES);
	gw_service_leave(c->endpoint->service, c->index);
}

static void describe(struct text *text, struct connection *c, const struct request *r,
		     unsigned open, uint64_t now)
{
	char why[EXPLAIN_BYTES];

	explain(c, why);
	add(text, "%s %s %s (%s): %llu bytes, open for %.0f s, %u open in all; %s", process.who,
	    c->sending ? "sends to" : "waits for", c->peer, c->peer_address,
	    (unsigned long long)atomic_load(&r->size),
	    (double)(now - atomic_load(&r->since_ns)) / (double)NS_PER_SECOND, open, why);
}

void watch_look(uint64_t now)
{
	for (struct connection *c = process.connections; c; c = c->next) {
		char line[EXPLAIN_BYTES + 256];
		struct text text = { line, sizeof(line), 0 };
		unsigned open;
		struct request *r = oldest(c, &open);
		uint64_t age = r ? now - atomic_load(&r->since_ns) : 0;

		if (requests_are_queued(c))
			requests_flush_later(c);
		if (!r || (int64_t)age < 0 || age < WARN_NS) {
			c->warn_ns = WARN_NS;
			continue;
		}
		/* At 30 s, 60 s, 120 s and so on. */
		if (age < c->warn_ns)
			continue;
		c->warn_ns *= 2;
		describe(&text, c, r, open, now);
		say_warn("%s", line);
	}
}

size_t watch_describe(char *out, size_t size, uint64_t now)
{
	struct text text = { out, size, 0 };
	unsigned idle = 0;

	add(&text, "%s\n", process.who);
	for (struct connection *c = process.connections; c; c = c->next) {
		unsigned open;
		struct request *r = oldest(c, &open);

		if (!r) {
			idle++;
			continue;
		}
		describe(&text, c, r, open, now);
		add(&text, "\n");
	}
	add(&text, "%u connections without an open request\n", idle);
	return text.used;
}

void watch_answer(void)
{
	struct ucred who;
	socklen_t length = sizeof(who);
	char *text;
	size_t size;
	int fd = accept4(process.ask_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	text = malloc(ASK_BYTES);
	if (text && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) &&
	    (who.uid == geteuid() || who.uid == 0)) {
		pthread_mutex_lock(&process.lock);
		size = watch_describe(text, ASK_BYTES, now_ns());
		pthread_mutex_unlock(&process.lock);
		(void)!send(fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	free(text);
	close(fd);
}

/* ---- statistics ------------------------------------------------------------------------------------------------- */

static void sum(struct gw_channel_stats *total, const struct gw_channel_stats *one)
{
	total->sends += one->sends;
	total->receives += one->receives;
	total->sent_bytes += one->sent_bytes;
	total->received_bytes += one->received_bytes;
	total->failed += one->failed;
	total->sends_open += one->sends_open;
	total->receives_open += one->receives_open;
	if (one->rtt_ns > total->rtt_ns)
		total->rtt_ns = one->rtt_ns;
	if (one->loss > total->loss)
		total->loss = one->loss;
}

/* Who moved messages: NCCL's thread by turns of progress, or the engine threads, to which requests were handed over. */
struct movers {
	uint64_t caller_turns, hand_overs;
};

static void collect_from(struct connection *list, const struct communicator *communicator,
			 struct gw_channel_stats *total, struct movers *movers)
{
	for (struct connection *c = list; c; c = c->next) {
		struct gw_channel_stats one;

		if (c->communicator != communicator ||
		    gw_service_enter(c->endpoint->service, c->index))
			continue;
		if (c->channel && !gw_channel_stats(c->channel, &one))
			sum(total, &one);
		movers->caller_turns += atomic_load(&c->caller_turns);
		movers->hand_overs += atomic_load(&c->hand_overs);
		gw_service_leave(c->endpoint->service, c->index);
	}
}

/* Of all connections of a communicator, those that were closed included. */
static void collect(const struct communicator *communicator, struct gw_channel_stats *total,
		    struct movers *movers)
{
	*total = communicator->closed;
	*movers = (struct movers){ communicator->caller_turns, communicator->hand_overs };
	collect_from(process.connections, communicator, total, movers);
	collect_from(process.lingering, communicator, total, movers);
}

static void add_json(struct text *text)
{
	const char *between = "";

	add(text, "{\"process\": \"%s\", \"communicators\": [", process.who);
	for (struct communicator *k = process.communicators; k; k = k->next) {
		struct gw_channel_stats s;
		struct movers movers;

		collect(k, &s, &movers);
		add(text,
		    "%s\n {\"id\": \"%016llx\", \"connections\": %llu, \"sends\": %llu, \"sent_bytes\": %llu, "
		    "\"receives\": %llu, \"received_bytes\": %llu, \"failed\": %llu, \"sends_open\": %llu, "
		    "\"receives_open\": %llu, \"rtt_ns\": %llu, \"loss\": %.6g, \"caller_turns\": %llu, "
		    "\"hand_overs\": %llu}",
		    between, (unsigned long long)k->id, (unsigned long long)k->connections,
		    (unsigned long long)s.sends, (unsigned long long)s.sent_bytes,
		    (unsigned long long)s.receives, (unsigned long long)s.received_bytes,
		    (unsigned long long)s.failed, (unsigned long long)s.sends_open,
		    (unsigned long long)s.receives_open, (unsigned long long)s.rtt_ns, s.loss,
		    (unsigned long long)movers.caller_turns, (unsigned long long)movers.hand_overs);
		between = ",";
	}
	add(text, "]}\n");
}

static void add_prometheus(struct text *text)
{
	for (struct communicator *k = process.communicators; k; k = k->next) {
		struct gw_channel_stats s;
		struct movers movers;
		char label[64];

		collect(k, &s, &movers);
		snprintf(label, sizeof(label), "{communicator=\"%016llx\",pid=\"%d\"}",
			 (unsigned long long)k->id, (int)getpid());
		add(text, "godwit_nccl_sends_total%s %llu\n", label, (unsigned long long)s.sends);
		add(text, "godwit_nccl_sent_bytes_total%s %llu\n", label,
		    (unsigned long long)s.sent_bytes);
		add(text, "godwit_nccl_receives_total%s %llu\n", label,
		    (unsigned long long)s.receives);
		add(text, "godwit_nccl_received_bytes_total%s %llu\n", label,
		    (unsigned long long)s.received_bytes);
		add(text, "godwit_nccl_failed_total%s %llu\n", label, (unsigned long long)s.failed);
		add(text, "godwit_nccl_connections_total%s %llu\n", label,
		    (unsigned long long)k->connections);
		add(text, "godwit_nccl_caller_turns_total%s %llu\n", label,
		    (unsigned long long)movers.caller_turns);
		add(text, "godwit_nccl_hand_overs_total%s %llu\n", label,
		    (unsigned long long)movers.hand_overs);
		add(text, "godwit_nccl_loss%s %.6g\n", label, s.loss);
	}
}

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length >= wanted && !strcmp(text + length - wanted, end);
}

/* The file's name, with the process's number in place of %p. */
static void file_name(const char *pattern, char *out, size_t size)
{
	const char *at = strstr(pattern, "%p");

	if (at)
		snprintf(out, size, "%.*s%d%s", (int)(at - pattern), pattern, (int)getpid(),
			 at + 2);
	else
		snprintf(out, size, "%s", pattern);
}

/* Writes beside the file and renames, so that a reader never sees half of it. */
void watch_statistics(void)
{
	char name[4096], fresh[4096 + 8];
	struct text text = { malloc(STATS_BYTES), STATS_BYTES, 0 };
	FILE *file;

	if (!text.at)
		return;
	file_name(process.settings.statistics, name, sizeof(name));
	snprintf(fresh, sizeof(fresh), "%s.new", name);
	if (ends_in(name, ".prom"))
		add_prometheus(&text);
	else
		add_json(&text);
	file = fopen(fresh, "we");
	if (!file || fwrite(text.at, 1, text.used, file) != text.used || fclose(file) ||
	    rename(fresh, name)) {
		say_warn("cannot write statistics to %s: %s", name, strerror(errno));
		process.settings.statistics = NULL;
	}
	free(text.at);
}
