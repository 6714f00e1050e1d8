/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay: a link between two guests, as the lab's links are, for frames of user-mode Linux.
 *
 * Usage: relay [--rtt T] [--rate R] [--loss P] [--burst N[:T]] [--seed N] FD FD
 *
 * Each descriptor is one end of a pair of sequenced sockets that a guest has the other end of. A direction is a struct
 * link, which says when a frame comes out or that it is lost, and a ring of the frames under way: nothing overtakes, so
 * the first of them is always the next to leave. The rings are the queue, and hold more than anyone here sends without
 * an answer. Ends when both guests have gone, and prints what became of the frames, as a line of JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lab/lateness.h"
#include "lab/units.h"
#include "link/link.h"

#define FRAME_MAX   4352 /* of a link MTU of 4200 */
#define FRAMES	    8192 /* that one direction holds; a power of two */
#define NS_A_SECOND UINT64_C(1000000000)
#define BURST_MAX   10000
#define NICE	    -10

struct frame {
	uint64_t at_ns;
	size_t length;
	uint8_t bytes[FRAME_MAX];
};

struct direction {
	int from, to;
	struct link link;
	struct frame *frames;
	uint32_t in, out; /* frames put into the ring and taken out of it; they wrap */
	bool blocked;	  /* the guest has not taken what it was sent */
	bool over;	  /* the guest that sends has gone */
	uint64_t entered;
	uint64_t overrun; /* for want of room */
	struct lateness late;
};

static _Noreturn void die(const char *what, const char *text)
{
	fprintf(stderr, "relay: %s: %s\n", what, text);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_A_SECOND + (uint64_t)now.tv_nsec;
}

/* Takes what a guest has sent. */
static void take(struct direction *d)
{
	while (!d->over) {
		struct frame *frame = &d->frames[d->in % FRAMES];
		ssize_t n = recv(d->from, frame->bytes, FRAME_MAX, MSG_DONTWAIT);
		struct link_verdict verdict;

		if (n <= 0) {
			d->over = !n || errno != EAGAIN;
			break;
		}
		d->entered++;
		verdict = link_enter(&d->link, now_ns(), (uint32_t)n);
		if (!verdict.copies)
			continue;
		/* One place is always free, to receive into. */
		if (d->in - d->out == FRAMES - 1) {
			d->overrun++;
			continue;
		}
		frame->at_ns = verdict.at_ns[0];
		frame->length = (size_t)n;
		d->in++;
	}
}

/* Hands over what is due; to a guest that has gone, nothing. */
static void hand_over(struct direction *d)
{
	d->blocked = false;
	while (d->out != d->in) {
		const struct frame *frame = &d->frames[d->out % FRAMES];
		uint64_t now = now_ns();

		if (frame->at_ns > now)
			return;
		if (send(d->to, frame->bytes, frame->length, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
			lateness_add(&d->late, now - frame->at_ns, 1);
		} else if (errno == EAGAIN || errno == ENOBUFS) {
			d->blocked = true;
			return;
		}
		d->out++;
	}
}

static uint64_t next_ns(const struct direction *d)
{
	return d->out == d->in || d->blocked ? UINT64_MAX : d->frames[d->out % FRAMES].at_ns;
}

static void sleep_until_something(const struct direction *there, const struct direction *back)
{
	uint64_t next = next_ns(there) < next_ns(back) ? next_ns(there) : next_ns(back);
	uint64_t now = now_ns(), wait = next > now ? next - now : 0;
	struct timespec limit = { .tv_sec = (time_t)(wait / NS_A_SECOND),
				  .tv_nsec = (long)(wait % NS_A_SECOND) };
	struct pollfd guests[2] = {
		{ .fd = there->over ? -1 : there->from,
		  .events = (short)(POLLIN | (back->blocked ? POLLOUT : 0)) },
		{ .fd = back->over ? -1 : back->from,
		  .events = (short)(POLLIN | (there->blocked ? POLLOUT : 0)) },
	};

	ppoll(guests, 2, next == UINT64_MAX ? NULL : &limit, NULL);
}

static void print_direction(const char *name, const struct direction *d)
{
	printf("\"%s\": {\"frames\": %lu, \"lost\": %lu, \"overrun\": %lu, \"late_p50_us\": %.1f, "
	       "\"late_p99_us\": %.1f, \"late_max_us\": %.1f}",
	       name, d->entered, d->link.stats.lost, d->overrun,
	       (double)lateness_quantile_ns(&d->late, 0.5) / 1e3,
	       (double)lateness_quantile_ns(&d->late, 0.99) / 1e3, (double)d->late.max_ns / 1e3);
}

/* As the lab has it: the share of frames, in bursts of so many on average. */
static void set_loss(struct link_attr *attr, double loss, uint64_t burst)
{
	if (burst <= 1) {
		attr->loss = loss;
		return;
	}
	attr->burst_loss = 1;
	attr->burst_leave = 1 / (double)burst;
	attr->burst_enter = loss * attr->burst_leave / (1 - loss);
}

static void read_burst(char *text, uint64_t *burst, uint64_t *most_ns)
{
	char *colon = strchr(text, ':');

	if (colon)
		*colon = '\0';
	if (units_count(text, 1, BURST_MAX, burst) || (colon && units_time_ns(colon + 1, most_ns)))
		die("--burst", "frames, or frames:time, such as 16:1ms");
}

static int read_descriptor(const char *text)
{
	uint64_t fd;

	if (units_count(text, 0, 1 << 20, &fd))
		die(text, "not a descriptor");
	return (int)fd;
}

static struct direction open_direction(int from, int to, const struct link_attr *attr,
				       uint64_t seed)
{
	struct direction d = { .from = from, .to = to };

	link_init(&d.link, attr, seed);
	d.frames = calloc(FRAMES, sizeof(*d.frames));
	if (!d.frames)
		die("frames", strerror(ENOMEM));
	return d;
}

/* As the lab's switch: behind the guests' own work it would be late. Where neither is allowed, so be it. */
static void be_prompt(void)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	prctl(PR_SET_TIMERSLACK, 1UL);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1 && sched_setscheduler(0, SCHED_RR, &lowest) == 0)
		return;
	setpriority(PRIO_PROCESS, 0, NICE);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "rtt", required_argument, NULL, 't' },  { "rate", required_argument, NULL, 'r' },
		{ "loss", required_argument, NULL, 'l' }, { "burst", required_argument, NULL, 'b' },
		{ "seed", required_argument, NULL, 's' }, { 0 },
	};
	struct link_attr attr = { 0 };
	struct direction there, back;
	uint64_t rtt_ns = 0, burst = 1, seed = 1;
	double loss = 0;
	int option, error = 0, a, b;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 't':
			error = units_time_ns(optarg, &rtt_ns);
			break;
		case 'r':
			error = units_rate_bps(optarg, &attr.rate_bps);
			break;
		case 'l':
			error = units_share(optarg, &loss);
			break;
		case 'b':
			read_burst(optarg, &burst, &attr.burst_max_ns);
			break;
		case 's':
			error = units_count(optarg, 0, UINT32_MAX, &seed);
			break;
		default:
			return 2;
		}
		if (error)
			die(argv[optind - 1], "not a value of this option");
	}
	if (argc - optind != 2 || loss >= 1)
		die("usage", "relay [options] FD FD, and less than everything lost");
	attr.delay_ns = rtt_ns / 2;
	set_loss(&attr, loss, burst);
	a = read_descriptor(argv[optind]);
	b = read_descriptor(argv[optind + 1]);
	/* Seeds of the two directions do not meet those of the next run. */
	there = open_direction(a, b, &attr, 2 * seed);
	back = open_direction(b, a, &attr, 2 * seed + 1);
	be_prompt();
	for (;;) {
		take(&there);
		take(&back);
		hand_over(&there);
		hand_over(&back);
		if (there.over && back.over)
			break;
		sleep_until_something(&there, &back);
	}
	putchar('{');
	print_direction("there", &there);
	printf(", ");
	print_direction("back", &back);
	printf("}\n");
	free(there.frames);
	free(back.frames);
	return 0;
}
