/* SPDX-License-Identifier: BSD-3-Clause */
/* Judges one sealed packet that has one wrong byte of its tag, for seal-time-test to count the instructions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/roce/seal.h"

#define LENGTH 1000u

static const struct seal_names names[2] = { { 1, 2, 3, 4 }, { 3, 4, 1, 2 } };

struct scene {
	struct seal *seal[2];
	uint8_t bytes[LENGTH + 128];
	size_t length;
	struct roce_packet packet;
};

/* What callgrind counts, by this name. */
__attribute__((noinline)) int seal_time_judge(struct scene *scene);

int seal_time_judge(struct scene *scene)
{
	uint8_t lane;

	return seal_check(scene->seal[1], SEAL_DATA, scene->bytes, scene->length, &scene->packet,
			  &lane);
}

static void make(struct scene *scene)
{
	uint8_t plain[LENGTH] = { 0 }, out[LENGTH + SEAL_EXTRA] = { 0 };
	uint8_t end[ROCE_ICRC_SIZE];
	struct roce_packet packet;
	size_t headers;

	roce_uc_write_imm(&packet, 3, 0, 0, 7, 0, out, LENGTH + SEAL_EXTRA);
	headers = roce_encode(&packet, scene->bytes, sizeof(scene->bytes));
	if (!seal_packet(scene->seal[0], SEAL_DATA, 0, scene->bytes, headers, plain, LENGTH, out,
			 end))
		exit(1);
	memcpy(scene->bytes + headers, out, sizeof(out));
	scene->length = headers + sizeof(out);
	memcpy(scene->bytes + scene->length, end, sizeof(end));
	scene->length += sizeof(end);
}

int main(int argc, char **argv)
{
	unsigned wrong = argc == 2 ? (unsigned)atoi(argv[1]) : CIPHER_TAG;
	struct fabric_seal keys = { { 0 }, { 0 } };
	static struct scene scene;

	for (int end = 0; end < 2; end++)
		if (seal_open(&keys, &scene.seal[end]) ||
		    seal_connect(scene.seal[end], &names[end]))
			return 1;
	/* The first two are for OpenSSL to settle: it looks for its functions when they are first called. */
	for (int i = 0; i < 3; i++) {
		make(&scene);
		/* LENGTH and SEAL_EXTRA are multiples of four: there is no pad, and the tag is at the end. */
		if (i == 2 && wrong < CIPHER_TAG)
			scene.bytes[scene.length - CIPHER_TAG + wrong] ^= 1;
		if (roce_decode(scene.bytes, scene.length, &scene.packet))
			return 1;
		if (i == 2)
			break;
		if (seal_time_judge(&scene) != SEAL_GOOD)
			return 1;
	}
	if (seal_time_judge(&scene) != (wrong < CIPHER_TAG ? SEAL_FORGED : SEAL_GOOD))
		return 1;
	seal_close(scene.seal[0]);
	seal_close(scene.seal[1]);
	return 0;
}
