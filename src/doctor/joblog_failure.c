/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of NCCL's that report a failure: each becomes an event of one kind, with the peer and the adapter if the line names
 * them. Numbers that differ from line to line (addresses, queue pairs) are not part of an event's text.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "joblog_nccl.h"

/* What follows the words up to a blank, or "". */
static const char *word_after(struct joblog *log, const char *text, const char *words)
{
	const char *at = joblog_after(text, words);

	return at ? joblog_text(log, at, strcspn(at, " \t,;")) : "";
}

/* An address without its port: "10.0.0.2<51234>", "node2<51234>". */
static const char *peer_after(struct joblog *log, const char *text, const char *words)
{
	const char *at = joblog_after(text, words);

	return at ? joblog_text(log, at, strcspn(at, "< \t")) : "";
}

static struct joblog_event *event(struct joblog_context *c, enum joblog_kind kind, long number,
				  const char *text)
{
	return joblog_event(c->stream, kind, number, c->process, text, c->whole);
}

/*
 * "Got completion from peer 10.0.0.2<4711> with error 12, opcode 0, len 0, vendor err 129 (Recv)" (2.18),
 * "... with status=12 opcode=1 len=0 vendor err 129 (Send) localGid ... remoteGids... hca mlx5_0" (2.20),
 * "... with status=IBV_WC_RETRY_EXC_ERR(12) opcode=... reqSize=0 vendor_err=129 req_type=Send ... hca mlx5_0" (2.28).
 */
static bool take_completion(struct joblog_context *c)
{
	const char *at = strstr(c->text, "Got completion from peer "), *status;
	struct joblog_event *e;
	char vendor[48];
	long number, code = -1;
	const char *v;

	if (!at)
		return false;
	if ((status = joblog_after(at, " with error ")))
		number = strtol(status, NULL, 10);
	else if (!(status = joblog_after(at, " status=")))
		return false;
	else if (isdigit((unsigned char)*status))
		number = strtol(status, NULL, 10);
	else
		number = (status = strchr(status, '(')) ? strtol(status + 1, NULL, 10) : -1;
	if ((v = joblog_after(at, "vendor err ")) || (v = joblog_after(at, "vendor_err=")))
		code = strtol(v, NULL, 10);
	snprintf(vendor, sizeof(vendor), "vendor error %ld", code);
	e = event(c, EVENT_COMPLETION, number, code >= 0 ? vendor : "");
	if (e && !e->peer[0]) {
		e->peer = peer_after(c->log, c->text, "from peer ");
		e->device = word_after(c->log, c->text, " hca ");
	}
	return true;
}

static bool take_async(struct joblog_context *c)
{
	const char *at = strncmp(c->text, "NET/IB : ", 9) == 0 ? c->text + 9 : NULL, *text;
	struct joblog_event *e;
	bool fatal;

	if (!at)
		return false;
	fatal = strstr(at, "async fatal event") != NULL;
	if ((text = joblog_after(at, "Got non-fatal async event: ")) ||
	    (text = joblog_after(at, "Got async event : "))) {
		e = event(c, EVENT_ASYNC, 0, joblog_text(c->log, text, strcspn(text, "(")));
	} else if (fatal) {
		text = strrchr(at, ':');
		e = event(c, EVENT_ASYNC, 1, text + 1 + (text[1] == ' '));
	} else if (strstr(at, "GID table changed")) {
		e = event(c, EVENT_ASYNC, 0, "GID table changed");
	} else {
		return false;
	}
	if (e && !e->device[0] && strchr(at, ':'))
		e->device = joblog_text(c->log, at, strcspn(at, ":"));
	return true;
}

static bool take_socket(struct joblog_context *c, bool warning)
{
	const char *text = c->text;
	struct joblog_event *e;
	char words[128];
	const char *at, *colon;

	if (strstr(text, "onnection closed by remote peer ")) {
		e = event(c, EVENT_SOCKET, 0, "connection closed by the peer");
		if (e && !e->peer[0])
			e->peer = peer_after(c->log, text, "by remote peer ");
		return true;
	}
	if (strstr(text, "retrying") && ((at = joblog_after(text, "onnect returned ")) ||
					 (at = joblog_after(text, " returned ")))) {
		snprintf(words, sizeof(words), "%.*s", (int)(strcspn(at, ",") % sizeof(words)), at);
		e = event(c, EVENT_RETRY, 0, words);
		if (e && !e->peer[0])
			e->peer = peer_after(c->log, text, ": connect to ");
		return true;
	}
	if (!warning || (strncmp(text, "socket", 6) != 0 && !strstr(text, "connect to ") &&
			 strncmp(text, "Net : ", 6) != 0))
		return false;
	/* "connect to 10.0.0.2<1> failed : No route to host", "... returned Connection refused, exceeded ..." */
	if (strstr(text, "exceeded retries") || strstr(text, "exceeded timeouts")) {
		snprintf(words, sizeof(words), "%s", text);
	} else if ((at = joblog_after(text, " returned "))) {
		snprintf(words, sizeof(words), "%.*s", (int)(strcspn(at, ",") % sizeof(words)), at);
	} else if ((at = joblog_after(text, " failed with error "))) {
		snprintf(words, sizeof(words), "%s", at);
	} else {
		colon = strrchr(text, ':');
		snprintf(words, sizeof(words), "%s", colon && colon[1] == ' ' ? colon + 2 : text);
	}
	e = event(c, EVENT_SOCKET, 1, words);
	if (e && !e->peer[0]) {
		e->peer = peer_after(c->log, text, "onnect to ");
		if (!e->peer[0])
			e->peer = peer_after(c->log, text, "recv from ");
		if (!e->peer[0])
			e->peer = peer_after(c->log, text, "send to ");
	}
	return true;
}

/* A text without its numbers and addresses, so that the same complaint is one event. */
static const char *without_numbers(const char *text, char out[JOBLOG_TEXT_MAX])
{
	size_t length = 0;

	while (*text && length < JOBLOG_TEXT_MAX - 2) {
		if (isdigit((unsigned char)*text)) {
			out[length++] = '#';
			while (isxdigit((unsigned char)*text) || *text == 'x' || *text == '.')
				text++;
		} else {
			out[length++] = *text++;
		}
	}
	out[length] = '\0';
	return out;
}

/* Kinds that a few words tell. */
static const struct {
	const char *words;
	long number;
	enum joblog_kind kind;
	/* also where the line is no warning */
	bool info;
} table[] = {
	{ "Duplicate GPU detected", 0, EVENT_DUPLICATE_GPU, false },
	{ "Multiple Ranks are using the same GPU", 0, EVENT_DUPLICATE_GPU, false },
	{ "Mismatched NCCL version", 0, EVENT_VERSION, false },
	{ "Bootstrap : no socket interface", 0, EVENT_BOOTSTRAP, false },
	{ "no socket interface found", 0, EVENT_BOOTSTRAP, false },
	{ "Bootstrap Root : ", 0, EVENT_BOOTSTRAP, false },
	{ "No IP interface found", 0, EVENT_BOOTSTRAP, false },
	{ "no device found matching", 0, EVENT_BOOTSTRAP, false },
	{ "shared memory segment", 0, EVENT_SHM, false },
	{ "failed to extend /dev/shm", 0, EVENT_SHM, false },
	{ "shared memory file", 0, EVENT_SHM, false },
	{ "Could not map /dev/shm", 0, EVENT_SHM, false },
	{ "Cuda failure", 0, EVENT_CUDA, true },
	{ "CUDA error", 0, EVENT_CUDA, false },
	{ "Call to ibv_", 0, EVENT_VERBS, false },
	{ "NET/IB : Unable to open device", 0, EVENT_VERBS, false },
	{ "NET/IB : Unable to query", 0, EVENT_VERBS, false },
	{ "Failed to initialize any NET plugin", 0, EVENT_NO_NETWORK, false },
	{ "Error: network ", 0, EVENT_NO_NETWORK, false },
	{ "Invalid value ", 0, EVENT_VALUE, true },
	{ "Attempted to connect incompatible devices", 1, EVENT_MISMATCH, false },
	{ "device is incompatible with the local", 1, EVENT_MISMATCH, false },
	{ "has a different number of devices", 0, EVENT_MISMATCH, true },
	{ "mismatched physical devices between", 0, EVENT_MISMATCH, true },
};

void joblog_failure(struct joblog_context *c, bool warning)
{
	char text[JOBLOG_TEXT_MAX];

	/* Where an error passed through NCCL's own functions: "transport/net.cc:1508 -> 6". */
	if (!warning && strstr(c->text, " -> ") && strstr(c->text, ".cc:"))
		return;
	if (take_completion(c) || take_async(c) || take_socket(c, warning))
		return;
	if (!warning && strstr(c->text, "Call to ibv_modify_qp failed") &&
	    strstr(c->text, "retrying")) {
		event(c, EVENT_RETRY, 1, "ibv_modify_qp");
		return;
	}
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if ((warning || table[i].info) && strstr(c->text, table[i].words)) {
			event(c, table[i].kind, table[i].number, c->text);
			return;
		}
	}
	if (warning)
		event(c, EVENT_WARNING, 0, without_numbers(c->text, text));
}
