/* SPDX-License-Identifier: BSD-3-Clause */
#include "counter.h"

#include <errno.h>
#include <string.h>

#include "parse.h"

#define WRAP_32 (UINT64_C(1) << 32)

/* The InfiniBand specification's widths of PortCounters. Newer firmware counts further; then the value is no limit. */
static const struct {
	const char *name;
	uint64_t limit;
} limits[] = {
	{ "VL15_dropped", UINT16_MAX },
	{ "excessive_buffer_overrun_errors", 15 },
	{ "link_downed", UINT8_MAX },
	{ "link_error_recovery", UINT8_MAX },
	{ "local_link_integrity_errors", 15 },
	{ "port_rcv_constraint_errors", UINT8_MAX },
	{ "port_rcv_data", UINT32_MAX },
	{ "port_rcv_errors", UINT16_MAX },
	{ "port_rcv_packets", UINT32_MAX },
	{ "port_rcv_remote_physical_errors", UINT16_MAX },
	{ "port_rcv_switch_relay_errors", UINT16_MAX },
	{ "port_xmit_constraint_errors", UINT8_MAX },
	{ "port_xmit_data", UINT32_MAX },
	{ "port_xmit_discards", UINT16_MAX },
	{ "port_xmit_packets", UINT32_MAX },
	{ "port_xmit_wait", UINT32_MAX },
	{ "symbol_error", UINT16_MAX },
};

uint64_t counter_limit(const char *name)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (strcmp(limits[i].name, name) == 0)
			return limits[i].limit;
	}
	return 0;
}

static struct counter *add(struct counters *counters, struct reader *reader, const char *name)
{
	if (counters->count == counters->room) {
		size_t room = counters->room ? counters->room * 2 : 64;
		struct counter *more = scratch_alloc(reader_scratch(reader), room * sizeof(*more));

		if (counters->count)
			memcpy(more, counters->counter, counters->count * sizeof(*more));
		counters->counter = more;
		counters->room = room;
	}
	counters->counter[counters->count] = (struct counter){ .name = name };
	return &counters->counter[counters->count++];
}

static void check_saturation(struct counter *counter, uint64_t value)
{
	uint64_t limit = counter_limit(counter->name);

	if (limit && value == limit)
		counter->saturated = true;
}

void counters_add_directory(struct counters *counters, struct reader *reader, const char *path)
{
	const struct names *names = reader_list(reader, "%s", path);

	for (size_t i = 0; i < names->count; i++) {
		const struct fact *fact = reader_read(reader, "%s/%s", path, names->name[i]);
		struct counter *counter;

		/* Settings of the reading itself, not a counter; and directories. */
		if (strcmp(names->name[i], "lifespan") == 0 || fact->error == EISDIR)
			continue;
		counter = add(counters, reader, names->name[i]);
		counter->path = fact->path;
		counter->state = fact->state;
		counter->error = fact->error;
		if (fact->state != FACT_KNOWN)
			continue;
		if (parse_number(fact->text, &counter->first))
			check_saturation(counter, counter->first);
		else
			counter->state = FACT_MALFORMED;
	}
}

void counters_again_directory(struct counters *counters, struct reader *reader, const char *path)
{
	size_t length = strlen(path);

	for (size_t i = 0; i < counters->count; i++) {
		struct counter *counter = &counters->counter[i];
		const struct fact *fact;

		if (strncmp(counter->path, path, length) != 0 || counter->path[length] != '/')
			continue;
		fact = reader_again(reader, "%s", counter->path);
		counter->has_second =
			fact->state == FACT_KNOWN && parse_number(fact->text, &counter->second);
		if (counter->has_second)
			check_saturation(counter, counter->second);
	}
}

/* Splits "name value" at the last blank. Returns whether there is a number. */
static bool split(const char *line, size_t length, size_t *name_length, uint64_t *value)
{
	char number[32];
	size_t at = length;

	while (at > 0 && line[at - 1] != ' ')
		at--;
	if (at < 2 || length - at == 0 || length - at >= sizeof(number))
		return false;
	memcpy(number, line + at, length - at);
	number[length - at] = '\0';
	*name_length = at - 1;
	return parse_number(number, value);
}

void counters_add_text(struct counters *counters, struct reader *reader, const struct fact *fact)
{
	const char *at = fact->text, *line;
	size_t length, name_length;
	uint64_t value;

	while (parse_line(&at, &line, &length)) {
		struct counter *counter;

		if (!split(line, length, &name_length, &value))
			continue;
		counter = add(counters, reader,
			      scratch_copy(reader_scratch(reader), line, name_length));
		counter->path = fact->path;
		counter->state = FACT_KNOWN;
		counter->first = value;
	}
}

void counters_again_text(struct counters *counters, const struct fact *fact)
{
	const char *at = fact->text, *line;
	size_t length, name_length, next = 0;
	uint64_t value;

	if (fact->state != FACT_KNOWN)
		return;
	/* The order of a driver's counters does not change: the next one is almost always the one sought. */
	while (parse_line(&at, &line, &length)) {
		if (!split(line, length, &name_length, &value))
			continue;
		for (size_t tried = 0; tried < counters->count; tried++, next++) {
			struct counter *counter = &counters->counter[next % counters->count];

			if (strncmp(counter->name, line, name_length) != 0 ||
			    counter->name[name_length] != '\0')
				continue;
			counter->second = value;
			counter->has_second = true;
			next++;
			break;
		}
	}
}

const struct counter *counters_find(const struct counters *counters, const char *name)
{
	for (size_t i = 0; i < counters->count; i++) {
		if (strcmp(counters->counter[i].name, name) == 0)
			return &counters->counter[i];
	}
	return NULL;
}

bool counter_value(const struct counter *counter, uint64_t *out)
{
	if (!counter || counter->state != FACT_KNOWN)
		return false;
	*out = counter->has_second ? counter->second : counter->first;
	return true;
}

bool counter_delta(const struct counter *counter, uint64_t *out)
{
	if (!counter || counter->state != FACT_KNOWN || !counter->has_second || counter->saturated)
		return false;
	if (counter->second >= counter->first) {
		*out = counter->second - counter->first;
		return true;
	}
	/* The counters of queue pairs have 32 bits. A smaller value that is not a wrap was reset: unknown. */
	if (counter->first < WRAP_32 && counter->first >= WRAP_32 / 2 &&
	    counter->second < WRAP_32 / 2) {
		*out = counter->second + WRAP_32 - counter->first;
		return true;
	}
	return false;
}
