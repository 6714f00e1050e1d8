/* SPDX-License-Identifier: BSD-3-Clause */
/* samples.c: writes comma-separated values. The file is buffered, because the switch must not wait for a disk. */
#include "samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "switch_state.h"

#define BUFFER_BYTES (1 << 20)
#define US_A_SECOND  1000000
#define NS_A_US	     1000

struct samples {
	FILE *file;
	uint64_t interval_ns;
	uint64_t next_ns;
};

int samples_open(const char *path, uint64_t interval_ns, struct samples **out)
{
	struct samples *samples = malloc(sizeof(*samples));
	int rc;

	if (!samples)
		return -ENOMEM;
	*samples = (struct samples){ fopen(path, "we"), interval_ns, 0 };
	if (!samples->file) {
		rc = -errno;
		free(samples);
		return rc;
	}
	setvbuf(samples->file, NULL, _IOFBF, BUFFER_BYTES);
	fputs("seconds,host,direction,bytes,waiting_bytes,dropped_packets\n", samples->file);
	*out = samples;
	return 0;
}

uint64_t samples_next_ns(const struct samples *samples)
{
	return samples->next_ns;
}

void samples_take(struct samples *samples, const struct lab_link *links, unsigned count,
		  uint64_t start_ns)
{
	uint64_t at_us = samples->next_ns / NS_A_US;

	for (unsigned i = 0; i < count; i++) {
		const struct lab_link *link = &links[i];
		const struct link_stats *stats = &link->model.stats;

		fprintf(samples->file,
			"%" PRIu64 ".%06" PRIu64 ",%u,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
			at_us / US_A_SECOND, at_us % US_A_SECOND, link->host,
			link->direction == LAB_UP ? "up" : "down", link->bytes,
			link_queued_bytes(&link->model, start_ns + samples->next_ns),
			stats->lost + stats->overflow + stats->cut);
	}
	samples->next_ns += samples->interval_ns;
}

int samples_close(struct samples *samples)
{
	int rc = 0;

	if (!samples)
		return 0;
	if (ferror(samples->file))
		rc = -EIO;
	if (fclose(samples->file) != 0)
		rc = -errno;
	free(samples);
	return rc;
}
