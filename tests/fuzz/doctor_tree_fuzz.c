/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy of a host that a stranger sent: as a capture, as a manifest, as lines laid over a healthy host; and messages of
 * the kernel. The first byte says which. Whatever it is, it is examined and told, as text and as JSON.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/exam.h"
#ifdef HAVE_LIBMNL
#include "doctor/netlink.h"
#endif

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void examine(struct reader *reader)
{
	static FILE *sink;
	const struct exam_attr attr = { .intent = INTENT_LOSSLESS };
	const struct diagnosis_style brief = { .colour = true }, all = { .verbose = true };
	struct diagnosis diagnosis = { 0 };
	json_t *object;

	if (!sink)
		sink = fopen("/dev/null", "we");
	assert(exam_run(reader, &attr, &diagnosis) == 0);
	diagnosis_print(&diagnosis, &brief, sink);
	diagnosis_print(&diagnosis, &all, sink);
	object = diagnosis_json(&diagnosis);
	assert(object);
	json_decref(object);
	diagnosis_free(&diagnosis);
}

static const char *kept_tree(const char *name)
{
	char path[512];
	char *text = calloc(1, INPUT_MAX);
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", TREES, name);
	file = fopen(path, "re");
	if (file) {
		(void)!fread(text, 1, INPUT_MAX - 1, file);
		fclose(file);
	}
	return text;
}

static void lay_over(const char *overlay)
{
	static const char *texts[3];
	struct reader *reader;

	if (!texts[0]) {
		texts[0] = kept_tree("host.tree");
		texts[1] = kept_tree("bnxt-re.tree");
	}
	texts[2] = overlay;
	if (reader_open_text(texts, 3, &reader) != 0)
		return;
	examine(reader);
	reader_close(reader);
}

static void netlink(const uint8_t *data, size_t size)
{
#ifdef HAVE_LIBMNL
	static void (*const kinds[])(const struct nlmsghdr *, struct builder *) = {
		netlink_dcb_text,	  netlink_route_text,	    netlink_rule_text,
		netlink_rdma_device_text, netlink_rdma_system_text, netlink_rdma_qp_text,
	};
	struct nlmsghdr *message = calloc(1, sizeof(*message) + size);

	memcpy(message + 1, data, size);
	message->nlmsg_len = (uint32_t)(sizeof(*message) + size);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct builder out = { 0 };

		kinds[i](message, &out);
		builder_free(&out);
	}
	free(message);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader *reader;
	char *text;

	if (size < 1 || size >= INPUT_MAX)
		return 0;
	text = calloc(1, size);
	memcpy(text, data + 1, size - 1);
	if (data[0] == 'n') {
		netlink(data + 1, size - 1);
	} else if (data[0] == 'o') {
		lay_over(text);
	} else if (reader_open_bytes(text, size - 1, &reader) == 0) {
		examine(reader);
		reader_close(reader);
	}
	free(text);
	return 0;
}
