/* SPDX-License-Identifier: BSD-3-Clause */
/* The bar is as wide as the terminal leaves room for; the line is rewritten in place and wiped at the end. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "text.h"

#define NS_PER_SECOND	   1e9
#define REDRAW_INTERVAL_NS UINT64_C(100000000)
#define COLUMNS_DEFAULT	   80
#define COLUMNS_MAX	   200
#define BAR_MIN		   5
#define BAR_MAX		   40

static unsigned terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0)
		return COLUMNS_DEFAULT;
	return size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
}

void progress_start(struct progress *progress, bool quiet, uint64_t total, uint64_t now_ns)
{
	*progress = (struct progress){ .shown = !quiet && isatty(STDERR_FILENO),
				       .total = total,
				       .started_ns = now_ns };
}

static void describe(const struct progress *progress, uint64_t done, uint64_t now_ns, char *out,
		     size_t size)
{
	double seconds = (double)(now_ns - progress->started_ns) / NS_PER_SECOND;
	double rate = seconds > 0 ? (double)done / seconds : 0;
	char share[2 * TEXT_SIZE], speed[TEXT_SIZE], left[TEXT_SIZE] = "";

	if (rate > 0) {
		double seconds_left = (double)(progress->total - done) / rate;
		uint64_t eta = seconds_left < 359999 ? (uint64_t)seconds_left : 359999;

		snprintf(left, sizeof(left), "  ETA %" PRIu64 ":%02u", eta / 60,
			 (unsigned)(eta % 60));
	}
	snprintf(out, size, " %s  %s%s", text_share(done, progress->total, share),
		 text_rate(rate * 8, speed), left);
}

bool progress_due(const struct progress *progress, uint64_t now_ns)
{
	return progress->shown && now_ns - progress->drawn_ns >= REDRAW_INTERVAL_NS;
}

void progress_note(struct progress *progress, const char *text, uint64_t now_ns)
{
	if (!progress_due(progress, now_ns))
		return;
	progress->drawn_ns = now_ns;
	progress->drawn = true;
	/* The last column stays free, for some terminals wrap there. */
	fprintf(stderr, "\r%.*s\033[K", (int)terminal_columns() - 1, text);
}

void progress_update(struct progress *progress, uint64_t done, uint64_t now_ns)
{
	char text[4 * TEXT_SIZE], bar[BAR_MAX + 1] = "";
	unsigned columns, width, filled;
	size_t room;

	if (!progress_due(progress, now_ns))
		return;
	progress->drawn_ns = now_ns;
	progress->drawn = true;
	describe(progress, done, now_ns, text, sizeof(text));
	columns = terminal_columns();
	/* " 42% [" and "]" are 7 columns; the last column stays free, for some terminals wrap there. */
	room = strlen(text) + 8;
	if (room + BAR_MIN > columns) {
		fprintf(stderr, "\r%.*s\033[K", (int)columns - 1, text);
		return;
	}
	width = columns - (unsigned)room;
	if (width > BAR_MAX)
		width = BAR_MAX;
	filled = progress->total ? (unsigned)((double)done / (double)progress->total * width)
				 : width;
	memset(bar, '.', width);
	memset(bar, '#', filled);
	fprintf(stderr, "\r%3u%% [%s]%s\033[K",
		progress->total ? (unsigned)((double)done / (double)progress->total * 100) : 100,
		bar, text);
}

void progress_clear(struct progress *progress)
{
	if (progress->drawn)
		fputs("\r\033[K", stderr);
	progress->drawn = false;
}
