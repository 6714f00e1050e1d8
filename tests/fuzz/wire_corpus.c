/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the seeds of the wire fuzzers: wire_corpus CORPUS_FOLDER. One small valid input for every
 * kind of packet and message, and a few that are nearly valid. The files are kept in the tree; run
 * this again when a format grows.
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/control.h"
#include "wire/icrc.h"
#include "wire/roce.h"

static const char *folder;
static uint8_t buf[1500];

static void save(const char *corpus, const char *name, size_t length)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, corpus, name);
	file = fopen(path, "wb");
	if (!file || fwrite(buf, 1, length, file) != length || fclose(file)) {
		perror(path);
		exit(1);
	}
}

/* Sealed as the fuzzer will check it: from and to 127.0.0.1 port 4791. */
static void save_packet(const char *name, const struct roce_packet *p, uint16_t id)
{
	struct sockaddr_in end = { .sin_family = AF_INET };
	size_t headers = roce_encode(p, buf, sizeof(buf));
	size_t covered = headers + p->payload_length + p->pad;
	struct icrc_flow flow;

	end.sin_port = htons(ROCE_PORT);
	end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memset(buf + headers, 0, p->payload_length + p->pad);
	if (icrc_flow_init((void *)&end, (void *)&end, &flow))
		exit(1);
	icrc_final(icrc_begin(&flow, covered + 4, id, true, buf, covered), buf + covered);
	save("wire_roce", name, covered + 4);
}

static void write_roce(void)
{
	static const uint8_t plain[] = {
		ROCE_OP_RC_ACKNOWLEDGE,		ROCE_OP_UC_SEND_FIRST,
		ROCE_OP_UC_SEND_LAST_WITH_IMM,	ROCE_OP_UC_SEND_ONLY,
		ROCE_OP_UC_WRITE_FIRST,		ROCE_OP_UC_WRITE_MIDDLE,
		ROCE_OP_UC_WRITE_LAST_WITH_IMM, ROCE_OP_UC_WRITE_ONLY,
	};
	struct roce_packet p;

	roce_uc_write_imm(&p, 0x11, 1, 0x1000, 0xabcd, 0x80000001, NULL, 6);
	save_packet("write-imm", &p, 0);
	save_packet("write-imm-id-5", &p, 5);
	save_packet("write-imm-id-50000", &p, 50000);
	p.pad = 3;
	save_packet("wrong-pad", &p, 0);
	p.version = 1;
	save_packet("wrong-version", &p, 0);
	roce_ud_send(&p, 1, 2, 0x11111111, 3, NULL, 40);
	save_packet("ud-send", &p, 0);
	roce_ud_send_imm(&p, 1, 2, 0x11111111, 3, 4, NULL, 3);
	save_packet("ud-send-imm", &p, 63);
	roce_cnp(&p, 0x118);
	save_packet("cnp", &p, 0x718c);
	for (size_t i = 0; i < sizeof(plain); i++) {
		char name[32];

		p = (struct roce_packet){ .opcode = plain[i],
					  .payload_length = 8,
					  .reth.length = 8 };
		snprintf(name, sizeof(name), "opcode-%02x", plain[i]);
		save_packet(name, &p, 0);
	}
}

static struct control_writer begin(enum control_type type)
{
	struct control_header header = { .token = 0x01020304,
					 .size = 4096,
					 .settled = type & 1,
					 .epoch = 1,
					 .epoch_applied = 255 };
	struct control_writer w;

	if (control_begin(&w, buf, sizeof(buf), type, &header))
		exit(1);
	return w;
}

static void write_control(void)
{
	static const uint8_t bytes[] = "a reason";
	struct control_writer w = begin(CONTROL_ANNOUNCE);

	control_put_announce(&w, 7);
	for (unsigned i = 0; i < 3; i++)
		control_put_announce_entry(&w, &(struct control_announce_entry){
						       .length = 65536 + i, .has_imm = true });
	save("wire_control", "announce", control_end(&w));
	w = begin(CONTROL_GRANT);
	control_put_grant(&w, 0xffffffff);
	for (uint16_t i = 0; i < 3; i++)
		control_put_grant_entry(
			&w, &(struct control_grant_entry){ i, 1, 2, 3, 4, 5, 1024u << i });
	save("wire_control", "grant", control_end(&w));
	buf[CONTROL_HEADER_SIZE + 5]++;
	save("wire_control", "grant-one-too-many", w.used);
	w = begin(CONTROL_REPORT);
	control_put_report(&w, &(struct control_report){ .landed = 9, .hold_ns = CONTROL_NO_ECHO });
	save("wire_control", "report-bare", control_end(&w));
	for (uint32_t i = 0; i < 4; i++)
		control_put_lane(&w, &(struct control_lane){ i, i });
	for (uint32_t i = 0; i < 2; i++)
		control_put_result(&w, &(struct control_result){ i, 0, i });
	for (uint32_t i = 0; i < 3; i++)
		control_put_run(&w, &(struct control_run){ i << 30, 1u << 30 });
	save("wire_control", "report", control_end(&w));
	control_put_holes(&w, 5, 6);
	save("wire_control", "report-holes", control_end(&w));
	control_put_clock(&w, 7);
	save("wire_control", "report-clock", control_end(&w));
	w = begin(CONTROL_NACK);
	control_put_nack(&w, &(struct control_nack){ .msn = 1, .below = 100 });
	control_put_run(&w, &(struct control_run){ 0, 1 });
	control_put_run(&w, &(struct control_run){ 90, 10 });
	save("wire_control", "nack", control_end(&w));
	buf[w.used - 1]++;
	save("wire_control", "nack-beyond-below", w.used);
	w = begin(CONTROL_CREDIT);
	control_put_credit(&w, &(struct control_credit){ 1000 });
	save("wire_control", "credit", control_end(&w));
	w = begin(CONTROL_PROBE);
	control_put_probe(&w, &(struct control_probe){ CONTROL_PROBE_REPLY, 1, 2, 3, 4 });
	save("wire_control", "probe", control_end(&w));
	w = begin(CONTROL_CLOSE);
	control_put_close(&w, &(struct control_close){ 1, sizeof(bytes), bytes });
	save("wire_control", "close", control_end(&w));
	w = begin(CONTROL_SCHEME);
	control_put_scheme(
		&w, &(struct control_scheme){ 1, CONTROL_TO_SENDER, 2, sizeof(bytes), bytes });
	save("wire_control", "scheme", control_end(&w));
	w = begin(CONTROL_SIZE);
	control_put_size(&w, &(struct control_size){ CONTROL_SIZE_PROBE, 3, 1024, 0 }, 100);
	save("wire_control", "size-probe", control_end(&w));
	w = begin(CONTROL_SIZE);
	control_put_size(&w, &(struct control_size){ CONTROL_SIZE_ARRIVED, 3, 1024, 0 }, 0);
	save("wire_control", "size-arrived", control_end(&w));
	w = begin(CONTROL_SIZE);
	control_put_size(&w, &(struct control_size){ CONTROL_SIZE_CUT, 0, 1024, 0xffffffff }, 0);
	save("wire_control", "size-cut", control_end(&w));
	buf[CONTROL_HEADER_SIZE]++;
	save("wire_control", "size-unknown-kind", w.used);
	w = begin(CONTROL_DATA);
	control_put_data(&w, &(struct control_data){ 1, 0, sizeof(bytes), bytes });
	save("wire_control", "data", control_end(&w));
	buf[1] = 99;
	save("wire_control", "unknown-type", w.used);
	buf[0] = CONTROL_VERSION + 1;
	save("wire_control", "unknown-version", w.used);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: wire_corpus CORPUS_FOLDER\n");
		return 2;
	}
	folder = argv[1];
	write_roce();
	write_control();
	return 0;
}
