/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's way from its command line to its end, and how it speaks with the other rank and with the harness.
 *
 * On the link a message is a length and bytes; the length LINK_FAILED stands for "this rank failed", followed by the reason as
 * a message. On the pipe to the harness a line is a word and a text:
 *	step, note, metric NAME VALUE, said (a warning of the plugin's), pass, fail, skip
 */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "case.h"
#include "tools/command.h"

#define LINK_FAILED   UINT32_MAX
#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS     1000000
#define LINE_BYTES    1024

/* For signal handlers and the log function, which have no argument. */
static struct worker *the_worker;
static bool verbose;

/* One write() for each line, so that lines of several threads do not mix. */
static void tell_harness(const struct worker *w, const char *word, const char *format, va_list args)
{
	char line[LINE_BYTES];
	size_t length = (size_t)snprintf(line, sizeof(line), "%s ", word);

	vsnprintf(line + length, sizeof(line) - length - 1, format, args);
	for (char *c = line; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
	length = strlen(line);
	line[length++] = '\n';
	(void)!write(w->result, line, length);
}

static void say(const struct worker *w, const char *word, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell_harness(w, word, format, args);
	va_end(args);
}

static bool link_write(const struct worker *w, const void *data, size_t length)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = send(w->link, (const char *)data + at, length - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static _Noreturn void end(struct worker *w, const char *word, const char *text)
{
	uint32_t head[2] = { LINK_FAILED, (uint32_t)strlen(text) };

	say(w, word, "%s", text);
	if (w->link >= 0 && link_write(w, head, sizeof(head)))
		link_write(w, text, head[1]);
	_exit(strcmp(word, "fail") ? EXIT_DONE : EXIT_FAILED);
}

void worker_fail(struct worker *w, const char *format, ...)
{
	char text[LINE_BYTES / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	end(w, "fail", text);
}

void worker_skip(struct worker *w, const char *format, ...)
{
	char text[LINE_BYTES / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	end(w, "skip", text);
}

void worker_note(struct worker *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell_harness(w, "note", format, args);
	va_end(args);
}

void worker_metric(struct worker *w, const char *name, double value)
{
	say(w, "metric", "%s %.6g", name, value);
}

void worker_step(struct worker *w, const char *what)
{
	w->step = what;
	say(w, "step", "%s", what);
}

void worker_check(struct worker *w, const char *call, int result)
{
	if (result != NCCL_SUCCESS)
		worker_fail(w, "%s: %s returned %s", w->step, call, net_result_name(result));
}

void worker_alive(struct worker *w)
{
	if (net_now_ns() >= w->deadline_ns)
		worker_fail(w, "%s: no end in time", w->step);
}

void worker_sleep_ms(unsigned ms)
{
	nanosleep(
		&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * NS_PER_MS },
		NULL);
}

/* ---- the link ---------------------------------------------------------------------------------------------------- */

static _Noreturn void peer_gone(struct worker *w)
{
	say(w, "fail", "%s: the other process ended", w->step);
	_exit(EXIT_FAILED);
}

static void link_read(struct worker *w, void *data, size_t length)
{
	for (size_t at = 0; at < length;) {
		struct pollfd ready = { .fd = w->link, .events = POLLIN };
		ssize_t n;

		worker_alive(w);
		if (poll(&ready, 1, 100) <= 0)
			continue;
		n = recv(w->link, (char *)data + at, length - at, MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			peer_gone(w);
		at += (size_t)n;
	}
}

void worker_tell(struct worker *w, const void *data, size_t length)
{
	uint32_t head = (uint32_t)length;

	if ((!link_write(w, &head, sizeof(head)) || !link_write(w, data, length)) && !w->lonely)
		peer_gone(w);
}

void worker_hear(struct worker *w, void *data, size_t length)
{
	char text[LINE_BYTES / 2];
	uint32_t head;

	link_read(w, &head, sizeof(head));
	if (head == LINK_FAILED) {
		link_read(w, &head, sizeof(head));
		/* The rest of a long reason is not needed. */
		if (head > sizeof(text) - 1)
			head = sizeof(text) - 1;
		link_read(w, text, head);
		text[head] = '\0';
		say(w, "peer", "%s", text);
		_exit(EXIT_FAILED);
	}
	if (head != length)
		worker_fail(w, "%s: the two ranks are out of step", w->step);
	link_read(w, data, length);
}

void worker_meet(struct worker *w)
{
	char mark = 'm';

	worker_tell(w, &mark, sizeof(mark));
	worker_hear(w, &mark, sizeof(mark));
}

/* ---- start and end ----------------------------------------------------------------------------------------------- */

void worker_log(int level, unsigned long flags, const char *function, int line, const char *format,
		...)
{
	char text[LINE_BYTES / 2];
	va_list args;

	(void)flags, (void)function, (void)line;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (level == NCCL_LOG_WARN && the_worker) {
		memcpy(the_worker->said, text, sizeof(the_worker->said));
		say(the_worker, "said", "%s", text);
	}
	if (verbose)
		fprintf(stderr, "rank %d: %s\n", the_worker ? the_worker->rank : -1, text);
}

/* A handler may do little: three writes make the line. */
static void on_crash(int signal)
{
	static const char accessed[] = ": the process accessed memory that it may not access\n";
	static const char aborted[] = ": the process was aborted\n";
	const struct worker *w = the_worker;

	(void)!write(w->result, "fail ", 5);
	(void)!write(w->result, w->step, strlen(w->step));
	if (signal == SIGABRT)
		(void)!write(w->result, aborted, sizeof(aborted) - 1);
	else
		(void)!write(w->result, accessed, sizeof(accessed) - 1);
	_exit(EXIT_FAILED);
}

void worker_begin(struct worker *w)
{
	char which[64];
	int count = 0;

	worker_step(w, "init");
	if (net_lacks(&w->net, which, sizeof(which)))
		worker_fail(w, "%s of the table is null; NCCL calls it without looking", which);
	worker_check(w, "init", net_init(&w->net, 1, worker_log));
	worker_step(w, "devices");
	worker_check(w, "devices", w->net.devices(&count));
	if (count <= 0)
		worker_skip(
			w,
			"the plugin has no device here: devices() says %d, and NCCL would not use it",
			count);
	if (w->dev >= count)
		worker_skip(w, "there is no device %d; devices() says %d", w->dev, count);
}

/* Arguments: PLUGIN CASE VERSION RANK LINK RESULT SECONDS DEVICE CONNECTIONS CHANNELS SILENCE VERBOSE */
int worker_main(int argc, char **argv)
{
	const struct check_case *c = argc == 13 ? case_find(argv[2]) : NULL;
	struct worker w = { .step = "load" };
	char why[512];

	if (!c)
		return EXIT_USAGE;
	w.plugin = argv[1];
	w.rank = atoi(argv[4]);
	w.link = atoi(argv[5]);
	w.result = atoi(argv[6]);
	w.deadline_ns = net_now_ns() + strtoull(argv[7], NULL, 10) * NS_PER_SECOND;
	w.dev = atoi(argv[8]);
	w.connections = (uint32_t)atoi(argv[9]);
	w.channels = (uint32_t)atoi(argv[10]);
	w.silence_ns = strtoull(argv[11], NULL, 10) * NS_PER_SECOND;
	verbose = atoi(argv[12]);
	the_worker = &w;
	signal(SIGSEGV, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGABRT, on_crash);
	if (w.rank == 1 && getenv(WORKER_DIFFER))
		putenv(getenv(WORKER_DIFFER));
	if (net_open(&w.net, w.plugin, atoi(argv[3]), why, sizeof(why)))
		worker_fail(&w, "%s", why);
	c->run(&w);
	/* A rank that has finished stays until the other has, as a rank of NCCL does. */
	if (w.link >= 0 && !(c->flags & CASE_DEADLY)) {
		w.step = "end of the case";
		worker_meet(&w);
	}
	say(&w, "pass", "%s", "");
	/* Without the plugin's destructors: a case has closed what it wanted to close. */
	_exit(EXIT_DONE);
}
