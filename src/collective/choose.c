/* SPDX-License-Identifier: BSD-3-Clause */
/* Predicts what each algorithm takes, and chooses the fastest: choose.h. The constants fit what bench/collsim takes for operations drawn
 * at random: 2 to 32 ranks, 0.05 to 100 ms, 0.1 to 100 Gbit/s, 4 KiB to 64 MiB. */
#include <stddef.h>

#include "collective/choose.h"
#include "collective/limits.h"

/* Assumed until the network was measured: a round-trip time, and rates in one place and between places. */
#define UNKNOWN_RTT_NS UINT64_C(1000000)
#define NEAR_KBPS      UINT64_C(10000000)
#define FAR_KBPS       UINT64_C(1000000)
/* Time of a processor for a message. */
#define MESSAGE_NS 1000
/* Ranks up to which each may be connected with all others. Above CROWD_RANKS a rank grants each of them little at a time. */
#define DIRECT_RANKS 32
#define CROWD_RANKS  16
#define CROWD_BYTES  4096
/* Bytes in flight that each of several senders to one rank has at least: where they are more together than what the link carries in a
 * round trip, they fill queues. */
#define SENDER_BYTES (UINT64_C(16) << 10)
/* Messages up to this need no grant; what is cut into longer ones waits for the first. */
#define GRANTED_BYTES (UINT64_C(64) << 10)
/* A link that carries up to this in a round trip is filled by a ring's messages without grants. */
#define LIGHT_BYTES (5 * GRANTED_BYTES)
/* Up to CROWD_RANKS a channel has so much under way without grants (links.c): the rest waits for answers. */
#define UNANSWERED_BYTES (7 * GRANTED_BYTES)
/* What is more is cut into longer messages, unless told. */
#define SHORT_MOST (64 * GRANTED_BYTES)
/* A segment of a chain costs each rank as much as so many bytes and so much time, and at least this many fill a link. Shorter ones
 * than CHAIN_LEAST_BYTES are few packets. */
#define CHAIN_MESSAGE_BYTES 2048
#define CHAIN_MESSAGE_NS    20000
#define CHAIN_IN_FLIGHT	    2
#define CHAIN_LEAST_BYTES   (UINT64_C(16) << 10)
/* Between places, where short ones would wait for answers. */
#define CHAIN_LONG_BYTES (UINT64_C(256) << 10)
/* Messages on which rounds that do not overlap wait longer than a one-way delay. */
#define ROUND_BYTES (UINT64_C(8) << 10)
#define TREE_BYTES  (UINT64_C(16) << 10)
/* How often a rate is corrected by a stretch that depends on it; four times is within some percent. */
#define STRETCH_TURNS 4
/* No prediction is needed above this, and products stay within 64 bits. */
#define BYTES_MOST (UINT64_C(1) << 40)
#define KBPS_LEAST UINT64_C(1000)
#define KBPS_MOST  UINT64_C(1000000000)

/* What an algorithm does one after the other. */
struct shape {
	/* one-way delays, in hundredths */
	uint64_t delays;
	/* bytes over one link */
	uint64_t bytes;
	/* messages of a rank */
	uint64_t messages;
	/* round trips for which short messages wait for answers, while bytes travel */
	uint64_t waits;
	/* round trips that grants take where messages are long; 0: it has short ones only */
	uint64_t grants;
	/* bytes travel while others are delayed, but for the last */
	bool overlaps;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How often messages of so many bytes together, on one channel and all short, wait for answers. */
static uint64_t waits_of(uint64_t bytes, uint64_t size)
{
	return size > CROWD_RANKS || !bytes ? 0 : (bytes - 1) / UNANSWERED_BYTES;
}

static uint64_t rtt_or_guess(uint64_t rtt_ns)
{
	return rtt_ns ? rtt_ns : UNKNOWN_RTT_NS;
}

unsigned choose_rate_at(enum operation operation, enum gw_algorithm algorithm)
{
	if (operation == OPERATION_BROADCAST && algorithm == GW_ALGORITHM_RING)
		return CHOOSE_ALGORITHMS;
	if (operation == OPERATION_BROADCAST && algorithm == GW_ALGORITHM_DIRECT)
		return CHOOSE_ALGORITHMS + 1;
	return algorithm;
}

/* A rate, or that of the links, which is not less than the lowest one of an algorithm. */
static uint64_t rate_at(const struct network *network, unsigned at)
{
	uint64_t least = UINT64_MAX;

	if (network->rate_kbps[at])
		return network->rate_kbps[at];
	for (unsigned i = CHOOSE_LINKS + 1; i < CHOOSE_RATES; i++)
		if (network->rate_kbps[i])
			least = smaller(least, network->rate_kbps[i]);
	if (least != UINT64_MAX)
		return larger(least, network->rate_kbps[CHOOSE_LINKS]);
	if (network->rate_kbps[CHOOSE_LINKS])
		return network->rate_kbps[CHOOSE_LINKS];
	return algorithm_is_near(network->rtt_ns) ? NEAR_KBPS : FAR_KBPS;
}

static uint64_t rate_of(const struct network *network, enum operation operation,
			enum gw_algorithm algorithm)
{
	return rate_at(network, choose_rate_at(operation, algorithm));
}

/* What a link carries in a round trip. */
static uint64_t carried(uint64_t rtt_ns, uint64_t kbps)
{
	return kbps * (rtt_ns / 1000) / 8000;
}

static uint64_t bytes_ns(uint64_t bytes, uint64_t kbps)
{
	return bytes * 8 * 1000 / kbps * 1000;
}

/* The highest rate that is known: an algorithm that waited for answers has a lower one than the links. */
static uint64_t link_rate(const struct network *network)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < CHOOSE_RATES; i++)
		most = larger(most, network->rate_kbps[i]);
	return most ? most : rate_at(network, CHOOSE_LINKS);
}

static uint64_t root_of(uint64_t square)
{
	uint64_t root = 0;

	for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= square)
			root += bit;
	return root;
}

/* Short messages of a chain wait for answers, long ones for a grant, and each rank but two delays the last one by a message. */
static bool chain_is_light(uint64_t bytes, uint64_t size, const struct network *network)
{
	uint64_t rtt_ns = rtt_or_guess(network->rtt_ns), kbps = link_rate(network);
	uint64_t handed = size > 2 ? size - 2 : 0, data_ns = bytes_ns(bytes, kbps);
	uint64_t light_ns = larger(data_ns, waits_of(bytes, size) * rtt_ns) +
			    bytes_ns(handed * GRANTED_BYTES, kbps);

	return light_ns <= data_ns + rtt_ns + bytes_ns(handed * CHAIN_LONG_BYTES, kbps);
}

/* Two of them fill a link. */
static uint64_t near_chain_bytes(uint64_t bytes, uint64_t size, const struct network *network)
{
	uint64_t kbps = rate_of(network, OPERATION_BROADCAST, GW_ALGORITHM_RING), message, segment;

	if (size < 3)
		return GRANTED_BYTES;
	message = CHAIN_MESSAGE_BYTES + kbps * CHAIN_MESSAGE_NS / 8000000;
	segment = root_of(bytes * message / (size - 2));
	segment = larger(segment, carried(network->rtt_ns, kbps) / CHAIN_IN_FLIGHT);
	return smaller(larger(segment, CHAIN_LEAST_BYTES), GRANTED_BYTES);
}

uint32_t choose_chain_bytes(uint64_t bytes, uint32_t size, const struct network *network)
{
	bytes = smaller(bytes, BYTES_MOST);
	if (algorithm_is_near(network->rtt_ns))
		return (uint32_t)near_chain_bytes(bytes, size, network);
	return chain_is_light(bytes, size, network) ? GRANTED_BYTES : CHAIN_LONG_BYTES;
}

static struct shape broadcast_shape(enum gw_algorithm algorithm, uint64_t bytes, uint64_t size,
				    const struct network *network)
{
	uint64_t rounds = doublings((uint32_t)size);
	/* that of a binomial tree */
	uint64_t depth = rounds - (size & (size - 1) ? 1 : 0);
	struct shape shape = { .bytes = bytes };
	uint32_t segment;

	switch (algorithm) {
	case GW_ALGORITHM_RING:
		segment = choose_chain_bytes(bytes, (uint32_t)size, network);
		shape.delays = 100 * (size - 1 + (bytes > GRANTED_BYTES));
		shape.waits = segment > GRANTED_BYTES ? 0 : waits_of(bytes, size);
		shape.bytes += (size - 2) * algorithm_chain_segment(bytes, segment);
		shape.messages = size - 1;
		break;
	case GW_ALGORITHM_TREE:
		shape.delays = depth * (bytes <= TREE_BYTES ? 100 : 125);
		shape.bytes *= rounds;
		shape.messages = rounds;
		shape.waits = bytes <= SHORT_MOST ? waits_of(bytes, size) : 0;
		break;
	default:
		shape.delays =
			100 * (2 + (size > CROWD_RANKS && bytes / (size - 1) > GRANTED_BYTES));
		shape.messages = size - 1;
		shape.waits = waits_of(bytes / (size - 1), size);
		shape.grants = 2;
		break;
	}
	return shape;
}

static struct shape shape_of(enum operation operation, uint64_t bytes, uint64_t size,
			     enum gw_algorithm algorithm, const struct network *network)
{
	uint64_t phases = operation == OPERATION_ALLREDUCE ? 2 : 1, chunk = bytes / size;
	uint64_t rounds = doublings((uint32_t)size), granted = chunk > GRANTED_BYTES;
	struct shape shape = { .bytes = phases * (bytes - chunk) };

	if (operation == OPERATION_BROADCAST)
		return broadcast_shape(algorithm, bytes, size, network);
	switch (algorithm) {
	case GW_ALGORITHM_RING:
		shape.delays = phases * (110 * (size - 1) + 100 * granted);
		shape.messages = phases * (size - 1);
		shape.overlaps = true;
		break;
	case GW_ALGORITHM_DIRECT:
		shape.delays = phases * 100;
		if (size > CROWD_RANKS)
			shape.delays *= 1 + granted + (chunk > CROWD_BYTES ? 2 : 0);
		shape.messages = phases * (size - 1);
		shape.waits = phases * waits_of(chunk, size);
		shape.grants = phases;
		break;
	default:
		if (operation == OPERATION_ALLREDUCE && algorithm_moves_all(bytes, (uint32_t)size))
			return (struct shape){ .delays = 100 * rounds,
					       .bytes = rounds * bytes,
					       .messages = rounds };
		shape.delays =
			phases * (rounds * (chunk > ROUND_BYTES ? 190 : 100) + 100 * granted);
		shape.bytes += shape.bytes / 2;
		shape.messages = phases * rounds;
		break;
	}
	return shape;
}

/* By how much more time bytes take than on a link that is full, in hundredths. */
static uint64_t stretch(enum operation operation, uint64_t bytes, uint64_t size,
			enum gw_algorithm algorithm, uint64_t rtt_ns, uint64_t kbps)
{
	if (algorithm != GW_ALGORITHM_DIRECT)
		return 105;
	if (size == 2)
		return bytes / 2 > GRANTED_BYTES ? 150 : 105;
	/* Long ones are limited to what the link carries. */
	if (operation != OPERATION_BROADCAST &&
	    limits_serve((double)bytes_ns(bytes - bytes / size, kbps), rtt_ns))
		return 110;
	return 115 +
	       smaller(100, 100 * (size - 1) * SENDER_BYTES / larger(1, carried(rtt_ns, kbps)));
}

/* Whether short messages wait for answers for longer than long ones would for grants. */
static bool wants_grants(const struct shape *shape, const struct network *network)
{
	return shape->grants && shape->waits * rtt_or_guess(network->rtt_ns) >
					shape->grants * rtt_or_guess(network->rtt_ns) +
						bytes_ns(shape->bytes, link_rate(network));
}

bool choose_is_light(enum operation operation, uint64_t bytes, uint32_t size,
		     enum gw_algorithm algorithm, const struct network *network)
{
	struct shape shape;

	/* A ring's messages follow each other over all rounds. */
	if (algorithm == GW_ALGORITHM_RING)
		return carried(network->rtt_ns, rate_of(network, operation, algorithm)) <=
		       LIGHT_BYTES;
	if (size < 2)
		return true;
	shape = shape_of(operation, smaller(bytes, BYTES_MOST), size, algorithm, network);
	return !wants_grants(&shape, network);
}

uint64_t choose_predict_ns(enum operation operation, uint64_t bytes, uint32_t size,
			   enum gw_algorithm algorithm, const struct network *network)
{
	uint64_t rtt_ns = rtt_or_guess(network->rtt_ns),
		 kbps = rate_of(network, operation, algorithm);
	struct shape shape =
		shape_of(operation, smaller(bytes, BYTES_MOST), size, algorithm, network);
	uint64_t delays_ns = shape.delays * (rtt_ns / 2) / 100;
	uint64_t data_ns = bytes_ns(shape.bytes, kbps) / 100 *
			   stretch(operation, bytes, size, algorithm, rtt_ns, kbps);

	if (wants_grants(&shape, network))
		delays_ns += shape.grants * rtt_ns;
	else
		data_ns = larger(data_ns, shape.waits * rtt_ns);
	return shape.messages * MESSAGE_NS +
	       (shape.overlaps ? larger(delays_ns, data_ns) + rtt_ns / 2 : delays_ns + data_ns);
}

uint64_t choose_rate_kbps(enum operation operation, uint64_t bytes, uint32_t size,
			  enum gw_algorithm algorithm, const struct network *network,
			  uint64_t took_ns)
{
	uint64_t rtt_ns = rtt_or_guess(network->rtt_ns);
	struct shape shape =
		shape_of(operation, smaller(bytes, BYTES_MOST), size, algorithm, network);
	uint64_t delays_ns = shape.delays * (rtt_ns / 2) / 100, data_ns, full, kbps;
	/* Where delays are most of it, the rest is chance as well as bytes. */
	bool bound = bytes_ns(shape.bytes, rate_of(network, operation, algorithm)) < delays_ns / 4;
	/* The same where bytes travelled while messages waited for answers. */
	bool waited = false;

	/* A rank that began after the others did not see all of it. */
	if (took_ns < delays_ns / 4 * 3)
		return 0;
	took_ns -= smaller(took_ns, shape.messages * MESSAGE_NS);
	if (wants_grants(&shape, network))
		delays_ns += shape.grants * rtt_ns;
	else
		waited = took_ns < delays_ns + shape.waits * rtt_ns / 4 * 5;
	if (shape.overlaps) {
		bound = bound || took_ns < delays_ns / 2 * 3 + rtt_ns / 2;
		data_ns = bound ? delays_ns / 4 : took_ns - rtt_ns / 2;
	} else {
		bound = bound || took_ns / 4 * 3 < delays_ns;
		data_ns = bound ? took_ns / 4 : took_ns - delays_ns;
	}
	full = smaller(shape.bytes * 8 * 1000 / larger(1, data_ns / 1000), KBPS_MOST);
	kbps = larger(KBPS_LEAST, full);
	for (unsigned i = 0; i < STRETCH_TURNS; i++)
		kbps = larger(KBPS_LEAST,
			      full * stretch(operation, bytes, size, algorithm, rtt_ns, kbps) /
				      100);
	return (bound || waited) && kbps <= rate_of(network, operation, algorithm) ? 0 : kbps;
}

enum gw_algorithm choose_algorithm(enum operation operation, uint64_t bytes, uint32_t size,
				   const struct network *network, bool fixed_order)
{
	bool reduces = operation == OPERATION_ALLREDUCE || operation == OPERATION_REDUCE_SCATTER;
	enum gw_algorithm best = GW_ALGORITHM_AUTO;
	uint64_t best_ns = UINT64_MAX;

	if (operation == OPERATION_BARRIER)
		return GW_ALGORITHM_DOUBLING;
	if (operation == OPERATION_ALLTOALL || (reduces && fixed_order) || size < 2)
		return GW_ALGORITHM_DIRECT;
	for (unsigned i = GW_ALGORITHM_AUTO + 1; i < CHOOSE_ALGORITHMS; i++) {
		enum gw_algorithm algorithm = (enum gw_algorithm)i;
		uint64_t ns;

		if (!algorithm_fits(operation, algorithm) ||
		    (algorithm == GW_ALGORITHM_DIRECT && size > DIRECT_RANKS))
			continue;
		ns = choose_predict_ns(operation, bytes, size, algorithm, network);
		/* To try one has a price: it may be slower, and its windows are not open yet. */
		if (!network->rate_kbps[choose_rate_at(operation, algorithm)])
			ns += ns / 4;
		if (ns < best_ns) {
			best = algorithm;
			best_ns = ns;
		}
	}
	return best;
}
