/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that share a secret seal their packets: nothing of what they send is to be read on the way, and packets that were changed
 * or sent again are refused. Real processes over loopback, and a socket that sees what passes there (which takes a privilege:
 * without it, that part is left out).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <godwit/collective.h>
#include <godwit/rendezvous.h>

#include "collective/multicast.h"
#include "job.h"

#define RANKS  2
#define LENGTH 100000
#define WORDS  "nobody on the path reads this. "
/* Bytes that a datagram has at least, and at most so that it is a single packet. */
#define DATAGRAM_LEAST 60
#define DATAGRAM_MOST  1400
/* Datagrams that are disturbed at least. */
#define ATTACKS 200
/* Seconds after which no more of them are awaited. Others of this host may send on the interface all the time. */
#define PATIENCE 20
/* Byte with bits 16 to 23 of the sequence number in a packet's header (BTH). */
#define PSN_BYTE 9

/* Shared by the test and the processes of the ranks. */
struct shared {
	volatile bool stop;
	/* of the ranks' contexts, added up */
	volatile uint64_t drop_seal;
	volatile uint64_t drop_replay;
};

static struct shared *shared;
static char secret_path[] = "/tmp/godwit-seal-XXXXXX";
static uint16_t port;
/* Address of the ranks, at which nobody else of this host is likely to be. */
static struct in_addr address;
static char fabric[64];

static int make_secret(void **state)
{
	int fd = mkstemp(secret_path);
	bool written;

	(void)state;
	written = fd >= 0 && dprintf(fd, "%064x\n", 0x5ea1) ==
				     65; /* 256 bits, which `godwit secret` would draw */
	close(fd);
	address.s_addr = htonl(0x7f000001u | ((unsigned)getpid() & 0xffff) << 8);
	snprintf(fabric, sizeof(fabric), "roce:%s@0", inet_ntoa(address));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return written && shared != MAP_FAILED ? 0 : -1;
}

static int remove_secret(void **state)
{
	(void)state;
	return unlink(secret_path);
}

static pid_t start(uint32_t rank, uint32_t flags, job_fn *fn)
{
	struct gw_comm_attr attr = { .rank = rank,
				     .size = RANKS,
				     .root = "127.0.0.1",
				     .port = port,
				     .fabric = fabric,
				     .secret_file = secret_path,
				     .flags = flags,
				     .peer_timeout_ns = 5 * SECOND };
	struct job given = { .rank = rank }, *job = &given;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	alarm(60);
	CHECK(gw_comm_open(&attr, &job->comm) == 0);
	fn(job);
	gw_comm_close(job->comm);
	_exit(0);
}

static void join(const pid_t *pids)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		int status;

		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static uint64_t counter(const struct job *job, const char *name)
{
	uint64_t value = 0;

	CHECK(gw_counter_read(gw_comm_context(job->comm), (unsigned)gw_counter_find(name),
			      &value) == 0);
	return value;
}

/* One operation, with the words in every packet; `algorithm` for a broadcast. */
static void broadcast(struct job *job, enum gw_algorithm algorithm)
{
	static uint8_t given[LENGTH], got[LENGTH];
	struct gw_coll_attr attr = { .send = given,
				     .recv = got,
				     .count = LENGTH,
				     .type = GW_UINT8,
				     .algorithm = algorithm };
	struct gw_coll *coll;

	for (size_t i = 0; i < LENGTH; i++)
		given[i] = (uint8_t)WORDS[i % (sizeof(WORDS) - 1)];
	memset(got, 0, sizeof(got));
	CHECK(gw_broadcast(job->comm, &attr, &coll) == 0);
	CHECK(gw_coll_wait(coll, 30 * SECOND) == 0);
	gw_coll_close(coll);
	CHECK(!memcmp(given, got, LENGTH));
}

/* Broadcasts until the test has seen enough; all ranks agree when that is. */
static void broadcasts(struct job *job)
{
	uint32_t mine, most = 0;

	do {
		struct gw_coll_attr attr = { .send = &mine,
					     .recv = &most,
					     .count = 1,
					     .type = GW_UINT32,
					     .reduction = GW_MAX };
		struct gw_coll *coll;

		broadcast(job, GW_ALGORITHM_AUTO);
		mine = shared->stop;
		CHECK(gw_allreduce(job->comm, &attr, &coll) == 0);
		CHECK(gw_coll_wait(coll, 30 * SECOND) == 0);
		gw_coll_close(coll);
	} while (!most);
	__atomic_add_fetch(&shared->drop_seal, counter(job, "drop_seal"), __ATOMIC_RELAXED);
	__atomic_add_fetch(&shared->drop_replay, counter(job, "drop_replay"), __ATOMIC_RELAXED);
}

/* What passed on the loopback interface while ranks were at work. */
struct sight {
	uint32_t datagrams;
	uint32_t with_words;
	/* of these, disturbed ones */
	uint32_t attacks;
};

/* Sends a datagram of the ranks once more, and once with a sequence number that is still to come. */
static void attack(int sock, const struct sockaddr_in *to, const uint8_t *bytes, size_t length)
{
	uint8_t changed[DATAGRAM_MOST];

	memcpy(changed, bytes, length);
	/* Four million packets ahead: still to come however late this socket reads what passed. */
	changed[PSN_BYTE] = (uint8_t)(changed[PSN_BYTE] + 0x40);
	sendto(sock, changed, length, 0, (const struct sockaddr *)to, sizeof(*to));
	sendto(sock, bytes, length, 0, (const struct sockaddr *)to, sizeof(*to));
}

/* Looks at packets, and disturbs the ranks with every fourth small one. False: this process may not look. */
static bool watch(bool clear, struct sight *out)
{
	int packets = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
	int sock = socket(AF_INET, SOCK_DGRAM, 0);
	struct timeval wait = { .tv_usec = 100000 };
	int room = 16 << 20;
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr = address };
	static uint8_t frame[1 << 17];
	socklen_t size = sizeof(own);

	assert_int_equal(bind(sock, (struct sockaddr *)&own, size), 0);
	assert_int_equal(getsockname(sock, (struct sockaddr *)&own, &size), 0);
	*out = (struct sight){ 0 };
	if (packets < 0) {
		close(sock);
		return false;
	}
	setsockopt(packets, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(packets, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	/* Most datagrams of a slow host are control: words in the clear, and those that can be disturbed, may take longer to come
	 * by. */
	for (time_t end = time(NULL) + PATIENCE;
	     time(NULL) < end &&
	     (out->datagrams < 2000 || ((out->attacks < ATTACKS || (clear && !out->with_words)) &&
					out->datagrams < 100000));) {
		ssize_t got = recv(packets, frame, sizeof(frame), 0);
		const struct iphdr *ip = (const struct iphdr *)frame;
		size_t start;
		struct udphdr udp;
		struct sockaddr_in to = { .sin_family = AF_INET };

		if (got < (ssize_t)(sizeof(*ip) + sizeof(udp)) || ip->protocol != IPPROTO_UDP ||
		    ip->saddr != address.s_addr)
			continue;
		start = (size_t)ip->ihl * 4;
		memcpy(&udp, frame + start, sizeof(udp));
		start += sizeof(udp);
		/* What was sent here is no sight of the ranks. */
		if (udp.source == own.sin_port)
			continue;
		to.sin_addr.s_addr = ip->daddr;
		to.sin_port = udp.dest;
		out->datagrams++;
		out->with_words += memmem(frame + start, (size_t)got - start, WORDS,
					  sizeof(WORDS) - 1) != NULL;
		if ((size_t)got - start >= DATAGRAM_LEAST && (size_t)got - start <= DATAGRAM_MOST &&
		    out->datagrams % 4 == 0) {
			attack(sock, &to, frame + start, (size_t)got - start);
			out->attacks++;
		}
	}
	close(packets);
	close(sock);
	return true;
}

static bool run_watched(uint32_t flags, struct sight *out)
{
	pid_t pids[RANKS];
	bool seen;

	memset(shared, 0, sizeof(*shared));
	port = job_free_port();
	for (uint32_t r = 0; r < RANKS; r++)
		pids[r] = start(r, flags, broadcasts);
	seen = watch(flags & GW_COMM_CLEAR, out);
	shared->stop = true;
	join(pids);
	return seen;
}

static void nothing_is_read_or_forged(void **state)
{
	struct sight sight;

	(void)state;
	if (!run_watched(0, &sight)) {
		fputs("SKIP: packets cannot be looked at: no CAP_NET_RAW\n", stderr);
		skip();
	}
	assert_true(sight.attacks >= ATTACKS);
	assert_int_equal(sight.with_words, 0);
	assert_true(shared->drop_seal > 0);
	assert_true(shared->drop_replay > 0);
	/* The same eyes do find the words in clear packets. */
	run_watched(GW_COMM_CLEAR, &sight);
	assert_true(sight.with_words > 0);
	assert_int_equal(shared->drop_seal, 0);
}

static void refused(struct job *job)
{
	uint64_t one = 1, sum;
	struct gw_coll_attr attr = { .send = &one, .recv = &sum, .count = 1, .type = GW_UINT64 };
	struct gw_coll *coll;

	CHECK(gw_allreduce(job->comm, &attr, &coll) == 0);
	CHECK(gw_coll_wait(coll, 30 * SECOND) == -EPERM);
	gw_coll_close(coll);
	CHECK(strstr(gw_comm_error(job->comm), "seals its packets and the other does not"));
}

static void a_rank_without_sealing_is_refused(void **state)
{
	pid_t pids[RANKS];

	(void)state;
	port = job_free_port();
	for (uint32_t r = 0; r < RANKS; r++)
		pids[r] = start(r, r ? GW_COMM_CLEAR : 0, refused);
	join(pids);
}

static void multicast(struct job *job)
{
	broadcast(job, GW_ALGORITHM_MULTICAST);
	CHECK(job->comm->multicast->state == MULTICAST_MISSING);
}

/* Multicast packets would be clear. */
static void sealed_ranks_have_no_multicast(void **state)
{
	pid_t pids[RANKS];

	(void)state;
	port = job_free_port();
	for (uint32_t r = 0; r < RANKS; r++)
		pids[r] = start(r, 0, multicast);
	join(pids);
}

/* Both ends have the same keys, and whatever differs gives others. */
static void keys_depend_on_all_that_names_a_channel(void **state)
{
	static const struct gw_channel_info here = { { 1 } }, there = { { 2 } };
	static const uint8_t nonce[SEAL_NONCE_BYTES] = { 3 }, fresh[SEAL_NONCE_BYTES] = { 4 };
	const struct seal_end mine = { 5, 1, 0, 1, &here, nonce };
	const struct seal_end theirs = { 5, 1, 1, 0, &there, nonce };
	struct gw_seal keys, other;

	(void)state;
	assert_int_equal(seal_keys(secret_path, &mine, &theirs, &keys), 0);
	assert_int_equal(seal_keys(secret_path, &theirs, &mine, &other), 0);
	assert_memory_equal(keys.tx, other.rx, sizeof(keys.tx));
	assert_memory_equal(keys.rx, other.tx, sizeof(keys.rx));
	assert_memory_not_equal(keys.tx, keys.rx, sizeof(keys.tx));
	for (unsigned i = 0; i < 6; i++) {
		struct seal_end changed = mine;

		changed.comm += i == 0;
		changed.track += i == 1;
		changed.from += i == 2 ? 7 : 0;
		changed.to += i == 3;
		changed.info = i == 4 ? &there : changed.info;
		changed.nonce = i == 5 ? fresh : changed.nonce;
		assert_int_equal(seal_keys(secret_path, &changed, &theirs, &other), 0);
		assert_memory_not_equal(keys.tx, other.tx, sizeof(keys.tx));
		assert_memory_not_equal(keys.rx, other.rx, sizeof(keys.rx));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_depend_on_all_that_names_a_channel),
		cmocka_unit_test(nothing_is_read_or_forged),
		cmocka_unit_test(a_rank_without_sealing_is_refused),
		cmocka_unit_test(sealed_ranks_have_no_multicast),
	};

	return cmocka_run_group_tests(tests, make_secret, remove_secret);
}
