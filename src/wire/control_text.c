/* SPDX-License-Identifier: BSD-3-Clause */
/* See control_text.h. Lists show their first entries and how many there are. */
#include "wire/control_text.h"

#include <stdarg.h>
#include <stdio.h>

#define ENTRIES_SHOWN 4u

struct text {
	char *at;
	size_t left;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text->at, text->left, format, args);
	va_end(args);
	if (length < 0)
		return;
	if ((size_t)length >= text->left)
		length = text->left ? (int)text->left - 1 : 0;
	text->at += length;
	text->left -= (size_t)length;
}

static unsigned shown(unsigned count)
{
	return count < ENTRIES_SHOWN ? count : ENTRIES_SHOWN;
}

static void add_runs(struct text *text, const struct control_message *message, unsigned count)
{
	add(text, " runs=%u", count);
	for (unsigned i = 0; i < shown(count); i++) {
		struct control_run run = control_run_at(message, i);

		add(text, "%c%u+%u", i ? ',' : ':', run.first, run.count);
	}
}

static void add_announce(struct text *text, const struct control_message *message)
{
	add(text, "announce msn=%u count=%u", message->announce.first_msn, message->announce.count);
	for (unsigned i = 0; i < shown(message->announce.count); i++) {
		struct control_announce_entry entry = control_announce_at(message, i);

		add(text, " [length=%llu scheme=%u]", (unsigned long long)entry.length,
		    entry.scheme);
	}
}

static void add_grant(struct text *text, const struct control_message *message)
{
	add(text, "grant msn=%u count=%u", message->grant.first_msn, message->grant.count);
	for (unsigned i = 0; i < shown(message->grant.count); i++) {
		struct control_grant_entry entry = control_grant_at(message, i);

		add(text, " [slot=%u generation=%u capacity=%llu payload=%u tag=%u]", entry.slot,
		    entry.generation, (unsigned long long)entry.capacity, entry.payload, entry.tag);
	}
}

static void add_report(struct text *text, const struct control_message *message)
{
	const struct control_report *report = &message->report;

	add(text, "report landed=%u duplicate=%u late=%u marked=%u overrun=%u", report->landed,
	    report->duplicate, report->late, report->ce, report->overrun);
	if (report->hold_ns != CONTROL_NO_ECHO)
		add(text, " echo=%u.%u hold_us=%.1f", report->echo_msn, report->echo_packet,
		    report->hold_ns / 1e3);
	add(text, " results=%u", report->result_count);
	for (unsigned i = 0; i < shown(report->result_count); i++) {
		struct control_result result = control_result_at(message, i);

		add(text, "%cmsn %u missing %u", i ? ',' : ':', result.msn, result.missing);
	}
	add_runs(text, message, report->run_count);
}

static void add_size(struct text *text, const struct control_size *size)
{
	static const char *const kinds[] = { "probe", "arrived", "cut" };

	add(text, "size %s payload=%u lane=%u", kinds[size->kind], size->payload, size->lane);
	if (size->kind == CONTROL_SIZE_CUT)
		add(text, " msn=%u", size->msn);
}

static void add_body(struct text *text, const struct control_message *message)
{
	switch ((enum control_type)message->header.type) {
	case CONTROL_ANNOUNCE:
		add_announce(text, message);
		break;
	case CONTROL_GRANT:
		add_grant(text, message);
		break;
	case CONTROL_REPORT:
		add_report(text, message);
		break;
	case CONTROL_NACK:
		add(text, "nack msn=%u round=%u below=%u", message->nack.msn, message->nack.round,
		    message->nack.below);
		add_runs(text, message, message->nack.run_count);
		break;
	case CONTROL_CREDIT:
		add(text, "credit packets=%u", message->credit.window_packets);
		break;
	case CONTROL_PROBE:
		add(text, "probe %s id=%u hold_us=%.1f",
		    message->probe.kind == CONTROL_PROBE_REPLY ? "reply" : "request",
		    message->probe.id, message->probe.hold_ns / 1e3);
		break;
	case CONTROL_CLOSE:
		add(text, "close reason=%u", message->close.reason);
		break;
	case CONTROL_SCHEME:
		add(text, "scheme msn=%u to=%s scheme=%u bytes=%u", message->scheme.msn,
		    message->scheme.side == CONTROL_TO_RECEIVER ? "receiver" : "sender",
		    message->scheme.scheme, message->scheme.payload_length);
		break;
	case CONTROL_SIZE:
		add_size(text, &message->size);
		break;
	case CONTROL_DATA:
		add(text, "data msn=%u packet=%u bytes=%u", message->data.msn, message->data.packet,
		    message->data.length);
		break;
	}
}

const char *control_text(const struct control_message *message, char *text, size_t size)
{
	const struct control_header *header = &message->header;
	struct text out = { text, size };

	add_body(&out, message);
	add(&out, " | announced=%u granted=%u completed=%u results=%u size=%u%s epoch=%u/%u",
	    header->announced, header->granted, header->completed, header->results, header->size,
	    header->settled ? " settled" : "", header->epoch, header->epoch_applied);
	return text;
}
