/* SPDX-License-Identifier: BSD-3-Clause */
/* Records from the peer: whatever the bytes, nothing outside them is read, and what decodes encodes to the same again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "channel/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	size_t offset = 0;
	struct record record;
	int more;

	if (!copy)
		return 0;
	for (;;) {
		size_t before = offset, length;

		more = record_next(data, size, &offset, &record);
		if (more <= 0) {
			assert(offset == before);
			break;
		}
		assert(offset > before && offset <= size);
		if (record.kind == RECORD_DATA)
			assert(record.data + record.length == data + offset);
		length = record_put(copy, &record);
		assert(length == offset - before);
		assert(!memcmp(copy, data + before, length));
	}
	assert(more || offset == size);
	free(copy);
	return 0;
}
