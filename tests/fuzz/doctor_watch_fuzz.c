/* SPDX-License-Identifier: BSD-3-Clause */
/* A recording that a stranger sent: replayed, compared, told in every form, and recorded again. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/watch.h"

#define INPUT_MAX   65536
#define SAMPLES_MAX 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void tell(const struct watch_sample *before, const struct watch_sample *now)
{
	static FILE *sink;
	struct watch_view view;
	json_t *line;

	if (!sink)
		sink = fopen("/dev/null", "we");
	watch_compare(before, now, &view);
	watch_print(&view, true, sink);
	watch_prometheus(now, sink);
	line = watch_json(&view);
	assert(line);
	json_decref(line);
	watch_view_free(&view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct watch_sample before = { 0 }, now;
	struct watch_recorder *recorder = NULL;
	struct watch_replay *replay;
	char *text;
	unsigned count = 0;

	if (size > INPUT_MAX || memchr(data, 0, size))
		return 0;
	text = calloc(1, size + 1);
	memcpy(text, data, size);
	if (watch_replay_open_text(text, &replay) == 0) {
		assert(watch_record_open("/dev/null", &recorder) == 0);
		while (count++ < SAMPLES_MAX && watch_replay_next(replay, true, &now) > 0) {
			if (before.reader)
				watch_carry(&before, &now);
			tell(before.reader ? &before : NULL, &now);
			watch_record(recorder, &now);
			if (before.reader)
				watch_sample_free(&before);
			before = now;
		}
		if (before.reader)
			watch_sample_free(&before);
		watch_record_close(recorder);
		watch_replay_close(replay);
	}
	free(text);
	return 0;
}
