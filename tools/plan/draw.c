/* SPDX-License-Identifier: BSD-3-Clause */
/* Round numbers: 1, 2 and 5 times powers of ten, or powers of two for sizes; as many as can be read. */
#include "draw.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "tools/text.h"

#define TICKS_WANTED 9

static const char *const axis_labels[PLAN_QUANTITIES] = { "share of packets lost",
							  "size of the message", "round trip",
							  "rate of the wire" };

static void add_tick(struct svg_axis *axis, double value, const char *text)
{
	struct svg_tick *tick = &axis->ticks[axis->tick_count];

	/* Ends that were reached by multiplying are a little off. */
	if (axis->tick_count == SVG_TICKS_MAX || value < axis->low * (1 - 1e-9) ||
	    value > axis->high * (1 + 1e-9))
		return;
	tick->value = value;
	snprintf(tick->text, sizeof(tick->text), "%s", text);
	axis->tick_count++;
}

/* "25 ms" of "25.0 ms": round numbers need no digits behind the point. */
static const char *short_time(double ns, char buffer[TEXT_SIZE])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	unsigned unit = 0;

	while (ns >= 999.9 && unit < 3) {
		ns /= 1000;
		unit++;
	}
	snprintf(buffer, TEXT_SIZE, "%.3g %s", ns, units[unit]);
	return buffer;
}

static const char *short_rate(double bps, char buffer[TEXT_SIZE])
{
	static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s" };
	unsigned unit = 0;

	while (bps >= 999.9 && unit < 4) {
		bps /= 1000;
		unit++;
	}
	snprintf(buffer, TEXT_SIZE, "%.3g %s", bps, units[unit]);
	return buffer;
}

static const char *tick_text(enum plan_quantity quantity, double value, char buffer[TEXT_SIZE])
{
	switch (quantity) {
	case PLAN_LOSS:
		/* 1e-3 and not 1e-03 */
		snprintf(buffer, TEXT_SIZE, "%.0fe%.0f",
			 value / pow(10, floor(log10(value) + 1e-9)), floor(log10(value) + 1e-9));
		return buffer;
	case PLAN_RTT:
		return short_time(value, buffer);
	default:
		return short_rate(value, buffer);
	}
}

static void size_ticks(struct svg_axis *axis)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	int first = (int)ceil(log2(axis->low) - 1e-9), last = (int)floor(log2(axis->high) + 1e-9);
	int step = (last - first) / TICKS_WANTED + 1;

	for (int power = first; power <= last && power < 60; power += step) {
		char text[TEXT_SIZE];

		snprintf(text, sizeof(text), "%d %s", 1 << power % 10, units[power / 10]);
		add_tick(axis, ldexp(1, power), text);
	}
}

static void decimal_ticks(enum plan_quantity quantity, struct svg_axis *axis)
{
	static const double steps[] = { 1, 2, 5 };
	int first = (int)floor(log10(axis->low)), last = (int)ceil(log10(axis->high));
	double decades = log10(axis->high / axis->low);
	int skip = (int)(decades / TICKS_WANTED) + 1;
	unsigned count = decades <= 3 ? 3 : 1;

	for (int power = first; power <= last; power += skip) {
		for (unsigned i = 0; i < count; i++) {
			double value = steps[i] * pow(10, power);
			char text[TEXT_SIZE];

			add_tick(axis, value, tick_text(quantity, value, text));
		}
	}
}

void plan_axis_of(enum plan_quantity quantity, double low, double high, struct svg_axis *out)
{
	*out = (struct svg_axis){ .label = axis_labels[quantity], .low = low, .high = high };
	if (quantity == PLAN_SIZE)
		size_ticks(out);
	else
		decimal_ticks(quantity, out);
}

void plan_axis_of_time(const char *label, double low_ns, double high_ns, struct svg_axis *out)
{
	plan_axis_of(PLAN_RTT, low_ns, high_ns, out);
	out->label = label;
}

void plan_subtitle(const struct plan_job *job, char *buffer)
{
	size_t length = 0;

	buffer[0] = '\0';
	for (unsigned i = 0; i < PLAN_QUANTITIES; i++) {
		static const char *const before[PLAN_QUANTITIES] = { "loss ", "", "round trip ",
								     "" };
		bool swept = false;
		char text[TEXT_SIZE];

		for (unsigned s = 0; s < job->sweep_count; s++)
			swept |= job->sweeps[s].quantity == i;
		if (swept)
			continue;
		plan_quantity_text((enum plan_quantity)i, job->point[i], text);
		length += (size_t)snprintf(buffer + length, PLAN_SUBTITLE_SIZE - length, "%s%s%s",
					   length ? ", " : "", before[i], text);
	}
	if (!isnan(job->burst) && job->burst > 1)
		length += (size_t)snprintf(buffer + length, PLAN_SUBTITLE_SIZE - length,
					   ", losses in runs of %g", job->burst);
	snprintf(buffer + length, PLAN_SUBTITLE_SIZE - length, "%s",
		 job->paper ? "; SDR-RDMA's model" : "; predicted");
}

int plan_draw_open(const struct plan_job *job, FILE **out)
{
	*out = fopen(job->svg, "w");
	if (*out)
		return 0;
	plan_complain("cannot write %s: %s", job->svg, strerror(errno));
	return -EIO;
}

int plan_draw_close(const struct plan_job *job, FILE *file)
{
	bool failed = ferror(file) != 0;

	if (fclose(file) == 0 && !failed)
		return 0;
	plan_complain("cannot write %s: %s", job->svg, strerror(errno));
	return -EIO;
}
