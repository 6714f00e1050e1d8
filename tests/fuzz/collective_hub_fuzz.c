/* SPDX-License-Identifier: BSD-3-Clause */
/* What another process may say to a hub, and what a launcher may put into the environment: the bytes go to the decoders. */
#include <assert.h>
#include <string.h>

#include "collective/hub_record.h"
#include "collective/launcher_address.h"
#include "collective/nodelist.h"

#define TEXT_MAX 600

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size)
{
	struct hub_record record;
	struct hub_record_join join;
	char text[64];
	int used;

	if (hub_record_decode_join(data, size, &join) == 0)
		assert(size >= HUB_HEADER + HUB_JOIN_BYTES);
	for (size_t at = 0; at < size; at += (size_t)used) {
		used = hub_record_decode(data + at, size - at, &record);
		if (used < 0)
			break;
		assert(used >= HUB_HEADER && (size_t)used <= size - at);
		assert(record.data + record.length == data + at + used);
		hub_record_text(&record, text, sizeof(text));
		assert(strlen(text) < sizeof(text));
	}
}

static void read_texts(const uint8_t *data, size_t size)
{
	char text[TEXT_MAX], host[32];

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (nodelist_first(text, host, sizeof(host)) == 0)
		assert(host[0] && !strpbrk(host, "[], "));
	if (launcher_choose_on("here", NULL, text, host, sizeof(host)) == 0)
		assert(host[0] && strspn(host, "0123456789abcdefABCDEF.:") == strlen(host));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	decode(data, size);
	read_texts(data, size);
	return 0;
}
