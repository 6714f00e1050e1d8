/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.h: the configuration of a lab: hosts around one switch, an uplink and a downlink for each, and changes over time.
 *
 * A packet passes the uplink of its sender and the downlink of its receiver. The round-trip time is divided evenly among the
 * four links of a round trip. Loss, duplication, reordering and jitter are given for one direction between two hosts and
 * act on the downlink only: they occur once, and the receivers of a multicast lose packets independently. Rate, queue and
 * marking hold for every link. --link overrides them for single links. Between the links there may be several paths.
 */
#ifndef LAB_CONFIG_H
#define LAB_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/link.h"

#define LAB_HOSTS_MAX  250
#define LAB_EVENTS_MAX 256
#define LAB_PATHS_MAX  16
/* The smallest MTU that IPv6 permits. */
#define LAB_MTU_MIN	1280
#define LAB_MTU_MAX	65535
#define LAB_MTU_DEFAULT 1500
#define LAB_ERROR_SIZE	256

enum lab_direction { LAB_UP, LAB_DOWN, LAB_DIRECTIONS };

struct lab_link_config {
	struct link_attr attr;
	/* share of packets that are lost */
	double mean_loss;
	/* mean length of a burst of losses, in packets; up to 1: losses are independent */
	double burst;
	/* the user set the queue's size */
	bool queue_given;
	/* largest IP packet that the link carries, in bytes; larger ones vanish; 0: no limit */
	uint32_t mtu;
};

enum lab_change { LAB_LINK_DOWN, LAB_LINK_UP, LAB_LINK_RATE, LAB_LINK_LOSS };

struct lab_event {
	/* time after the start of the commands */
	uint64_t at_ns;
	/* a path changes, and not hosts */
	bool of_path;
	/* the path, or the first and the last host */
	unsigned first;
	unsigned last;
	enum lab_change change;
	/* for LAB_LINK_RATE */
	uint64_t rate_bps;
	/* for LAB_LINK_LOSS: share of packets */
	double loss;
};

struct lab_config {
	/* number of hosts, and whether the user set it */
	unsigned hosts;
	bool hosts_given;
	/* largest IP packet, in bytes */
	uint32_t mtu;
	/* seed of all random decisions */
	uint64_t seed;
	/* round-trip time between two hosts */
	uint64_t rtt_ns;
	/* time that packets may leave late, so that more of them leave at a time and the switch need not poll; 0: as little as
	 * it can */
	uint64_t slack_ns;
	/* options that hold for all links; config_links() computes delays from rtt_ns */
	struct lab_link_config every;
	struct lab_link_config links[LAB_HOSTS_MAX][LAB_DIRECTIONS];
	/* changes, in the order of time */
	struct lab_event events[LAB_EVENTS_MAX];
	unsigned event_count;
	/* paths between uplinks and downlinks; only their loss and burst are used */
	unsigned path_count;
	struct lab_link_config paths[LAB_PATHS_MAX];
	/* hosts send and receive single packets: no segmentation offload */
	bool no_offload;
	/* a command that fails ends the others */
	bool kill_on_failure;
	/* print a JSON report */
	bool json;
	/* print a table of drops, and whether the user said so */
	bool summary;
	bool summary_given;
	/* pcap file to write; NULL: none */
	const char *capture;
	/* CSV file of samples to write, NULL: none, and the time between samples */
	const char *samples;
	uint64_t sample_interval_ns;
	/* for each host: the command and its arguments, ending in NULL; NULL: none */
	char **commands[LAB_HOSTS_MAX];
	/* host whose command is a shell that has the lab's terminal; -1: none */
	int shell;
};

/* Describes two hosts with links that have no delay, no rate limit and no loss. */
void config_init(struct lab_config *config);

/* Writes the reason, and returns -EINVAL. */
int config_fail(char error[LAB_ERROR_SIZE], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Sets one `key=value` of a link. Returns 0, or -EINVAL with the reason in error; so do the functions below. */
int config_set(struct lab_link_config *link, const char *key, const char *value,
	       char error[LAB_ERROR_SIZE]);

/* Sets every link from `every` and `rtt_ns`. Call it once, after these and `hosts` are set. */
void config_links(struct lab_config *config);

/* Overrides settings of single links by HOST:up|down:key=value,... with HOST a number or "all"; after config_links(). */
int config_override(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE]);

/* Sets the loss of a path by PATH:key=value,... with keys loss and burst. */
int config_path(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE]);

/* Sets samples by TIME:FILE; `text` must outlive the configuration. */
int config_samples(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE]);

/* Adds a change by TIME:HOST:down|up|rate=R|loss=P, with pathN in place of HOST for a path, which has no rate. */
int config_event(struct lab_config *config, const char *text, char error[LAB_ERROR_SIZE]);

/* Gives each link whose queue was not set one bandwidth-delay product, at least 64 KiB. Call it last. */
void config_queues(struct lab_config *config);

/* Sets the mean loss, in bursts if link->burst says so. */
void config_loss(struct lab_link_config *link, double mean);

#endif
