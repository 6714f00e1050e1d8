/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c: reads options in three steps, because those for a single link override those for all: config_set() for all
 * links, config_links(), then config_override(). */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "units.h"

#define NS_A_SECOND 1000000000
#define QUEUE_MIN   (64 * 1024)
#define REORDER_NS  1000000
#define BURST_MAX   1e6
/* Links that a round trip passes. */
#define LINKS_A_ROUND_TRIP 4

void config_init(struct lab_config *config)
{
	*config = (struct lab_config){
		.hosts = 2, .mtu = LAB_MTU_DEFAULT, .path_count = 1, .shell = -1
	};
	config->every.burst = 1;
	for (unsigned i = 0; i < LAB_PATHS_MAX; i++)
		config->paths[i].burst = 1;
}

int config_fail(char error[LAB_ERROR_SIZE], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, LAB_ERROR_SIZE, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

void config_loss(struct lab_link_config *link, double mean)
{
	struct link_attr *attr = &link->attr;

	link->mean_loss = mean;
	attr->burst_enter = attr->burst_leave = attr->burst_loss = 0;
	attr->loss = mean;
	if (link->burst <= 1 || mean <= 0 || mean >= 1)
		return;
	/* In the bad state everything is lost; the share of packets sent in it is the mean loss. */
	attr->loss = 0;
	attr->burst_loss = 1;
	attr->burst_leave = 1 / link->burst;
	attr->burst_enter = mean * attr->burst_leave / (1 - mean);
	if (attr->burst_enter > 1)
		attr->burst_enter = 1;
}

/* Refuses a value for what units_problem() says about it, or about a part of it. */
static int fail_units(char error[LAB_ERROR_SIZE], const char *key, const char *value,
		      enum units_kind kind)
{
	char why[UNITS_PROBLEM_SIZE];

	return config_fail(error, "%s \"%s\" %s", key, value, units_problem(kind, value, why));
}

static int set_reorder(struct link_attr *attr, const char *value, char error[LAB_ERROR_SIZE])
{
	const char *colon = strchr(value, ':');
	char share[32];
	double reorder;
	uint64_t held_ns = REORDER_NS;

	snprintf(share, sizeof(share), "%.*s", colon ? (int)(colon - value) : 31, value);
	if (units_share(share, &reorder))
		return fail_units(error, "reorder", share, UNITS_SHARE);
	if (colon && units_time_ns(colon + 1, &held_ns))
		return fail_units(error, "reorder's time", colon + 1, UNITS_TIME);
	attr->reorder = reorder;
	attr->reorder_ns = held_ns;
	return 0;
}

static int set_burst(struct lab_link_config *link, const char *value, char error[LAB_ERROR_SIZE])
{
	const char *colon = strchr(value, ':');
	uint64_t packets, most_ns = 0;
	char count[32];

	snprintf(count, sizeof(count), "%.*s", colon ? (int)(colon - value) : 31, value);
	if (units_count(count, 1, (uint64_t)BURST_MAX, &packets))
		return config_fail(
			error,
			"burst \"%s\" is not a number of packets, or packets:time, such as 8:1ms",
			value);
	if (colon && units_time_ns(colon + 1, &most_ns))
		return fail_units(error, "burst's time", colon + 1, UNITS_TIME);
	link->burst = (double)packets;
	link->attr.burst_max_ns = most_ns;
	config_loss(link, link->mean_loss);
	return 0;
}

static int set_share(struct lab_link_config *link, const char *key, const char *value,
		     char error[LAB_ERROR_SIZE])
{
	double share;

	if (units_share(value, &share))
		return fail_units(error, key, value, UNITS_SHARE);
	if (strcmp(key, "loss") == 0)
		config_loss(link, share);
	else
		link->attr.duplicate = share;
	return 0;
}

static int set_size(struct lab_link_config *link, const char *key, const char *value,
		    char error[LAB_ERROR_SIZE])
{
	uint64_t bytes;

	if (units_size_bytes(value, &bytes))
		return fail_units(error, key, value, UNITS_SIZE);
	if (strcmp(key, "ecn") == 0) {
		link->attr.ecn_bytes = bytes;
		return 0;
	}
	link->attr.queue_bytes = bytes;
	link->queue_given = true;
	return 0;
}

static int set_mtu(struct lab_link_config *link, const char *value, char error[LAB_ERROR_SIZE])
{
	uint64_t bytes;

	if (units_count(value, LAB_MTU_MIN, LAB_MTU_MAX, &bytes))
		return config_fail(error, "mtu \"%s\" is not a number from %d to %d", value,
				   LAB_MTU_MIN, LAB_MTU_MAX);
	link->mtu = (uint32_t)bytes;
	return 0;
}

static int set_time(struct lab_link_config *link, const char *key, const char *value,
		    char error[LAB_ERROR_SIZE])
{
	uint64_t time_ns;

	if (units_time_ns(value, &time_ns))
		return fail_units(error, key, value, UNITS_TIME);
	if (strcmp(key, "delay") == 0)
		link->attr.delay_ns = time_ns;
	else
		link->attr.jitter_ns = time_ns;
	return 0;
}

int config_set(struct lab_link_config *link, const char *key, const char *value,
	       char error[LAB_ERROR_SIZE])
{
	if (strcmp(key, "rate") == 0) {
		if (units_rate_bps(value, &link->attr.rate_bps))
			return fail_units(error, key, value, UNITS_RATE);
		return 0;
	}
	if (strcmp(key, "loss") == 0 || strcmp(key, "dup") == 0)
		return set_share(link, key, value, error);
	if (strcmp(key, "queue") == 0 || strcmp(key, "ecn") == 0)
		return set_size(link, key, value, error);
	if (strcmp(key, "delay") == 0 || strcmp(key, "jitter") == 0)
		return set_time(link, key, value, error);
	if (strcmp(key, "burst") == 0)
		return set_burst(link, value, error);
	if (strcmp(key, "reorder") == 0)
		return set_reorder(&link->attr, value, error);
	if (strcmp(key, "mtu") == 0)
		return set_mtu(link, value, error);
	return config_fail(
		error,
		"a link has no \"%s\"; it has rate, delay, jitter, queue, ecn, loss, burst, dup, reorder, mtu",
		key);
}

void config_links(struct lab_config *config)
{
	for (unsigned host = 0; host < config->hosts; host++) {
		struct lab_link_config *up = &config->links[host][LAB_UP];
		struct lab_link_config *down = &config->links[host][LAB_DOWN];

		*down = config->every;
		down->attr.delay_ns = config->rtt_ns / LINKS_A_ROUND_TRIP;
		*up = *down;
		config_loss(up, 0);
		up->attr.duplicate = up->attr.reorder = 0;
		up->attr.jitter_ns = 0;
	}
}

/* Splits the text at `mark`: returns the part before it and moves *text behind it. NULL if there is no mark. */
static char *cut(char **text, char mark)
{
	char *start = *text, *end = strchr(start, mark);

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return start;
}

static int read_hosts(const struct lab_config *config, const char *text, unsigned *first,
		      unsigned *last, char error[LAB_ERROR_SIZE])
{
	uint64_t host;

	if (strcmp(text, "all") == 0) {
		*first = 0;
		*last = config->hosts - 1;
		return 0;
	}
	if (units_count(text, 0, config->hosts - 1, &host))
		return config_fail(error, "host \"%s\" is not one of 0 to %u, nor \"all\"", text,
				   config->hosts - 1);
	*first = *last = (unsigned)host;
	return 0;
}

/* Splits off the next key=value of a comma-separated list; false at its end. The key is NULL if there is no '='. */
static bool next_setting(char **list, char **key, char **value)
{
	*value = strsep(list, ",");
	*key = *value ? cut(value, '=') : NULL;
	return *value != NULL;
}

int config_override(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE])
{
	char copy[LAB_ERROR_SIZE], *rest = copy, *host, *way, *key, *value;
	unsigned first = 0, last = 0, direction;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return config_fail(error, "too long");
	host = cut(&rest, ':');
	way = host ? cut(&rest, ':') : NULL;
	if (!way)
		return config_fail(error, "it should read HOST:up|down:key=value,...");
	if (read_hosts(config, host, &first, &last, error))
		return -EINVAL;
	if (strcmp(way, "up") != 0 && strcmp(way, "down") != 0)
		return config_fail(error, "\"%s\" is neither up nor down", way);
	direction = strcmp(way, "up") == 0 ? LAB_UP : LAB_DOWN;
	if (!*rest)
		return config_fail(error, "no key=value follows the direction");
	while (next_setting(&rest, &key, &value)) {
		if (!key)
			return config_fail(error, "\"%s\" is not key=value", value);
		for (unsigned i = first; i <= last; i++) {
			if (config_set(&config->links[i][direction], key, value, error))
				return -EINVAL;
		}
	}
	return 0;
}

static int read_path(const struct lab_config *config, const char *text, unsigned *out,
		     char error[LAB_ERROR_SIZE])
{
	uint64_t path;

	if (units_count(text, 0, config->path_count - 1, &path))
		return config_fail(error, "path \"%s\" is not one of 0 to %u", text,
				   config->path_count - 1);
	*out = (unsigned)path;
	return 0;
}

int config_path(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE])
{
	char copy[LAB_ERROR_SIZE], *rest = copy, *number, *key, *value;
	unsigned path = 0;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return config_fail(error, "too long");
	number = cut(&rest, ':');
	if (!number || !*rest)
		return config_fail(error, "it should read PATH:loss=P,burst=N");
	if (read_path(config, number, &path, error))
		return -EINVAL;
	while (next_setting(&rest, &key, &value)) {
		if (!key || (strcmp(key, "loss") != 0 && strcmp(key, "burst") != 0))
			return config_fail(error, "a path has loss=P and burst=N, nothing else");
		if (config_set(&config->paths[path], key, value, error))
			return -EINVAL;
	}
	return 0;
}

int config_samples(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE])
{
	const char *colon = strchr(text, ':');
	char time[32];

	snprintf(time, sizeof(time), "%.*s", colon ? (int)(colon - text) : 0, text);
	if (colon && units_time_ns(time, &config->sample_interval_ns))
		return fail_units(error, "time", time, UNITS_TIME);
	if (!colon || !colon[1] || !config->sample_interval_ns)
		return config_fail(error, "it should read TIME:FILE, such as 5ms:samples.csv");
	config->samples = colon + 1;
	return 0;
}

static int read_change(char *text, struct lab_event *event, char error[LAB_ERROR_SIZE])
{
	char *value = text, *key;

	if (strcmp(text, "down") == 0) {
		event->change = LAB_LINK_DOWN;
		return 0;
	}
	if (strcmp(text, "up") == 0) {
		event->change = LAB_LINK_UP;
		return 0;
	}
	key = cut(&value, '=');
	if (key && strcmp(key, "rate") == 0) {
		event->change = LAB_LINK_RATE;
		if (!units_rate_bps(value, &event->rate_bps))
			return 0;
		return fail_units(error, key, value, UNITS_RATE);
	}
	if (key && strcmp(key, "loss") == 0) {
		event->change = LAB_LINK_LOSS;
		if (!units_share(value, &event->loss))
			return 0;
		return fail_units(error, key, value, UNITS_SHARE);
	}
	return config_fail(error, "\"%s\" is none of down, up, rate=R and loss=P", text);
}

int config_event(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE])
{
	char copy[LAB_ERROR_SIZE], *rest = copy, *when, *host;
	struct lab_event event = { 0 };
	unsigned place = config->event_count;

	if (config->event_count == LAB_EVENTS_MAX)
		return config_fail(error, "more than %d of them", LAB_EVENTS_MAX);
	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return config_fail(error, "too long");
	when = cut(&rest, ':');
	host = when ? cut(&rest, ':') : NULL;
	if (!host)
		return config_fail(error, "it should read TIME:HOST:down|up|rate=R|loss=P");
	if (units_time_ns(when, &event.at_ns))
		return fail_units(error, "time", when, UNITS_TIME);
	event.of_path = strncmp(host, "path", 4) == 0;
	if (event.of_path ? read_path(config, host + 4, &event.first, error)
			  : read_hosts(config, host, &event.first, &event.last, error))
		return -EINVAL;
	if (read_change(rest, &event, error))
		return -EINVAL;
	if (event.of_path && event.change == LAB_LINK_RATE)
		return config_fail(error, "a path has no rate");
	/* In the order of time; of two at the same time, the one given first comes first. */
	for (; place > 0 && config->events[place - 1].at_ns > event.at_ns; place--)
		config->events[place] = config->events[place - 1];
	config->events[place] = event;
	config->event_count++;
	return 0;
}

void config_queues(struct lab_config *config)
{
	for (unsigned i = 0; i < config->hosts * LAB_DIRECTIONS; i++) {
		struct lab_link_config *link =
			&config->links[i / LAB_DIRECTIONS][i % LAB_DIRECTIONS];
		unsigned __int128 product = (unsigned __int128)link->attr.rate_bps * config->rtt_ns;

		if (link->queue_given || !link->attr.rate_bps)
			continue;
		link->attr.queue_bytes = (uint64_t)(product / 8 / NS_A_SECOND);
		if (link->attr.queue_bytes < QUEUE_MIN)
			link->attr.queue_bytes = QUEUE_MIN;
	}
}
