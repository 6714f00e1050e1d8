/* SPDX-License-Identifier: BSD-3-Clause */
#include "ledger.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct ledger *ledger_open(const char *path, uint32_t rank)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	struct ledger *ledger;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, sizeof(*ledger))) {
		close(fd);
		return NULL;
	}
	ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (ledger == MAP_FAILED)
		return NULL;
	ledger->rank = rank;
	ledger->magic = LEDGER_MAGIC;
	return ledger;
}

struct ledger_channel *ledger_channel(struct ledger *ledger)
{
	if (ledger->channels < LEDGER_CHANNELS)
		ledger->channels++;
	return &ledger->channel[ledger->channels - 1];
}

uint32_t ledger_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	uint32_t count = 0;

	if (!directory)
		return 0;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count - 3; /* ".", ".." and the directory itself */
}

/* Returns what was allocated and not freed. Pages of a context's pools and arena are resident from their first use on, so that
 * what is resident grows for minutes although nothing is kept. */
static uint32_t heap_kib(void)
{
	struct mallinfo2 info = mallinfo2();

	return (uint32_t)((info.uordblks + info.hblkhd) >> 10);
}

void ledger_sample(struct ledger *ledger, uint64_t now_ns)
{
	if (ledger->samples == LEDGER_SAMPLES)
		return;
	ledger->sample[ledger->samples] = (struct ledger_sample){
		.at_ns = now_ns,
		.heap_kib = heap_kib(),
		.descriptors = ledger_descriptors(),
	};
	ledger->samples++;
}

void ledger_wrong(struct ledger *ledger, const char *format, ...)
{
	va_list args;

	if (ledger->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(ledger->wrong, sizeof(ledger->wrong), format, args);
	va_end(args);
	fprintf(stderr, "soak_peer %u: %s\n", ledger->rank, ledger->wrong);
}
