/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.c: the classic pcap format with nanoseconds, in the byte order of the machine. */
#include "capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_NANOSECONDS UINT32_C(0xa1b23c4d)
#define LINKTYPE_RAW	  101
#define BUFFER_BYTES	  (1 << 20)
#define NS_A_SECOND	  UINT64_C(1000000000)

struct capture {
	FILE *file;
	/* the packet being written */
	uint8_t packet[PACKET_HEADER_MAX + PACKET_SIZE_MAX];
};

struct file_header {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t zone;
	uint32_t accuracy;
	uint32_t snap_length;
	uint32_t link_type;
};

struct record_header {
	uint32_t seconds;
	uint32_t nanoseconds;
	uint32_t captured;
	uint32_t length;
};

int capture_open(const char *path, struct capture **out)
{
	const struct file_header header = { MAGIC_NANOSECONDS, 2,	    4, 0, 0,
					    PACKET_SIZE_MAX,   LINKTYPE_RAW };
	struct capture *capture = malloc(sizeof(*capture));
	int rc;

	if (!capture)
		return -ENOMEM;
	capture->file = fopen(path, "wbe");
	if (!capture->file) {
		rc = -errno;
		free(capture);
		return rc;
	}
	setvbuf(capture->file, NULL, _IOFBF, BUFFER_BYTES);
	fwrite(&header, sizeof(header), 1, capture->file);
	*out = capture;
	return 0;
}

void capture_packet(struct capture *capture, uint64_t wall_ns, const struct packet *packet,
		    unsigned index, bool congested)
{
	struct record_header header = { (uint32_t)(wall_ns / NS_A_SECOND),
					(uint32_t)(wall_ns % NS_A_SECOND), 0, 0 };
	struct packet_run run;

	packet_build(packet, index, 1, congested, &run);
	header.captured = header.length = run.header_length + run.payload_length;
	memcpy(capture->packet, run.header, run.header_length);
	memcpy(capture->packet + run.header_length, run.payload, run.payload_length);
	packet_finish_checksum(&run.vnet, capture->packet, header.length);
	fwrite(&header, sizeof(header), 1, capture->file);
	fwrite(capture->packet, header.length, 1, capture->file);
}

int capture_close(struct capture *capture)
{
	int rc = 0;

	if (!capture)
		return 0;
	if (ferror(capture->file))
		rc = -EIO;
	if (fclose(capture->file) != 0)
		rc = -errno;
	free(capture);
	return rc;
}
