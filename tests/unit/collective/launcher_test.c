/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers say in the environment, what each bad value is answered with, and which launcher counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/launcher.h"
#include "collective/launcher_address.h"
#include "collective/nodelist.h"

/* Sets variables, "NAME=VALUE" with spaces between, and nothing else, and reads them. */
static int read_with(const char *variables, char why[LAUNCHER_WHY], struct launcher *out)
{
	char copy[1024], *rest, *word;

	clearenv();
	snprintf(copy, sizeof(copy), "%s", variables);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		char *equal = strchr(word, '=');

		*equal = '\0';
		setenv(word, equal + 1, 1);
	}
	memset(out, 0, sizeof(*out));
	return launcher_read(UINT64_C(1000000000), why, out);
}

static void good(const char *variables, const char *name, uint32_t rank, uint32_t size,
		 uint32_t local_rank, const char *root, uint16_t port)
{
	struct launcher found;
	char why[LAUNCHER_WHY];
	int rc = read_with(variables, why, &found);

	if (rc)
		print_message("%s: %s\n", variables, why);
	assert_int_equal(rc, 0);
	assert_string_equal(found.name, name);
	assert_int_equal(found.rank, rank);
	assert_int_equal(found.size, size);
	assert_int_equal(found.local_rank, local_rank);
	assert_string_equal(found.root, root);
	if (port)
		assert_int_equal(found.port, port);
	else
		assert_in_range(found.port, 20480, 28671);
	assert_string_equal(why, "");
}

static void bad(const char *variables, const char *sentence)
{
	struct launcher found;
	char why[LAUNCHER_WHY];

	assert_int_equal(read_with(variables, why, &found), -EINVAL);
	if (!strstr(why, sentence))
		print_message("%s: %s\n", variables, why);
	assert_non_null(strstr(why, sentence));
}

#define TORCH "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=a.b MASTER_PORT=29400 "
#define OMPI                                                                                       \
	"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 PMIX_NAMESPACE=77 "
#define PMI "PMI_RANK=1 PMI_SIZE=6 MPI_LOCALRANKID=1 "
#define SLURM                                                                                      \
	"SLURM_PROCID=5 SLURM_NTASKS=12 SLURM_STEP_NUM_TASKS=10 SLURM_LOCALID=2 SLURM_STEP_ID=0 "  \
	"SLURM_JOB_ID=991 SLURM_STEP_NODELIST=node[03-07,12],x9 SLURM_JOB_NODELIST=node[01-12] "

static void test_each_launcher(void **state)
{
	good(TORCH, "torchrun", 3, 8, 1, "a.b", 29401);
	good("RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1", "torchrun", 0, 2, LAUNCHER_NO_RANK, "::1",
	     29501);
	good("RANK=0 WORLD_SIZE=1", "torchrun", 0, 1, LAUNCHER_NO_RANK, "", 29501);
	good("RANK=0 WORLD_SIZE=1 MASTER_PORT=65535", "torchrun", 0, 1, LAUNCHER_NO_RANK, "",
	     65534);
	good(OMPI "MASTER_ADDR=h", "Open MPI", 2, 4, 0, "h", 0);
	good(OMPI "MASTER_ADDR=h MASTER_PORT=5000", "Open MPI", 2, 4, 0, "h", 5001);
	good(PMI "MASTER_ADDR=h", "MPICH", 1, 6, 1, "h", 29501);
	good(SLURM, "Slurm", 5, 10, 2, "node03", 0);
	good("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEPID=3 SLURM_NODELIST=a,b", "Slurm", 1, 2,
	     LAUNCHER_NO_RANK, "a", 29501);
	good(SLURM "MASTER_ADDR=h", "Slurm", 5, 10, 2, "h", 0);
}

static void test_the_innermost_launcher_counts(void **state)
{
	good(SLURM OMPI "MASTER_ADDR=h", "Open MPI", 2, 4, 0, "h", 0);
	good(SLURM PMI "MASTER_ADDR=h", "MPICH", 1, 6, 1, "h", 29501);
	good(SLURM TORCH, "torchrun", 3, 8, 1, "a.b", 29401);
	good(OMPI TORCH, "torchrun", 3, 8, 1, "a.b", 29401);
	/* srun --mpi=pmi2 sets both: the list of hosts tells where rank 0 is */
	good(SLURM "PMI_RANK=5 PMI_SIZE=10", "MPICH", 5, 10, LAUNCHER_NO_RANK, "node03", 29501);
	/* mpiexec of MPICH in an allocation: it does not */
	bad(SLURM PMI, "PMI_RANK is set and MASTER_ADDR is not");
}

static void test_godwit_overrides(void **state)
{
	good(TORCH "GODWIT_RANK=1 GODWIT_SIZE=2 GODWIT_LOCAL_RANK=0 GODWIT_ROOT=r GODWIT_PORT=9",
	     "torchrun", 1, 2, 0, "r", 9);
	good(SLURM "GODWIT_PORT=29500", "Slurm", 5, 10, 2, "node03", 29500);
	good(SLURM "GODWIT_ROOT=r", "Slurm", 5, 10, 2, "r", 0);
	good("GODWIT_RANK=1 GODWIT_SIZE=2 GODWIT_ROOT=r", "GODWIT_RANK", 1, 2, LAUNCHER_NO_RANK,
	     "r", 29501);
	bad("GODWIT_RANK=1", "GODWIT_RANK is set and GODWIT_SIZE is not");
	bad("GODWIT_RANK=1 GODWIT_SIZE=2", "GODWIT_RANK is set and MASTER_ADDR is not");
}

static void test_bad_values(void **state)
{
	bad("",
	    "no launcher: start with torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR");
	bad("RANK=3", "RANK is set and WORLD_SIZE is not: set both");
	bad("WORLD_SIZE=3", "WORLD_SIZE is set and RANK is not: set both");
	bad("RANK=x WORLD_SIZE=2", "RANK is \"x\": it has to be a number from 0 to");
	bad("RANK=-1 WORLD_SIZE=2", "RANK is \"-1\"");
	bad("RANK=+1 WORLD_SIZE=2", "RANK is \"+1\"");
	bad("RANK=1x WORLD_SIZE=2", "RANK is \"1x\"");
	bad("RANK=99999999999999999999 WORLD_SIZE=2", "RANK is \"99999999999999999999\"");
	bad("RANK=0 WORLD_SIZE=0", "WORLD_SIZE is \"0\": it has to be a number from 1 to 4096");
	bad("RANK=0 WORLD_SIZE=4097", "WORLD_SIZE is \"4097\"");
	bad("RANK=8 WORLD_SIZE=8", "RANK is 8 and WORLD_SIZE is 8: ranks are 0 to 7");
	bad("RANK=0 WORLD_SIZE=2",
	    "RANK is set and MASTER_ADDR is not: set it to the host of rank 0");
	bad("RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 MASTER_ADDR=a", "LOCAL_RANK is \"2\"");
	bad("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT is \"0\"");
	bad("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65536", "MASTER_PORT is \"65536\"");
	bad("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a GODWIT_PORT=no", "GODWIT_PORT is \"no\"");
	bad("OMPI_COMM_WORLD_RANK=0",
	    "OMPI_COMM_WORLD_RANK is set and OMPI_COMM_WORLD_SIZE is not");
	bad("SLURM_PROCID=0 SLURM_NTASKS=4", "no task of srun: start with srun");
	bad("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=4", "SLURM_STEP_NODELIST is not set");
	bad("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_NODELIST=n[x",
	    "SLURM_NODELIST is \"n[x\", which is no list of hosts");
	/* PMIx has no server here, and may not be installed at all */
	bad(OMPI, "start with `mpirun -x MASTER_ADDR=HOST`");
}

static void test_launchers_that_contradict(void **state)
{
	bad("RANK=3 WORLD_SIZE=4 MASTER_ADDR=h " OMPI,
	    "RANK is 3 and OMPI_COMM_WORLD_RANK is 2, of 4 ranks each: unset RANK and WORLD_SIZE");
	bad("RANK=3 WORLD_SIZE=10 MASTER_ADDR=h " SLURM, "RANK is 3 and SLURM_PROCID is 5, of 10");
	bad("RANK=3 WORLD_SIZE=6 MASTER_ADDR=h " PMI, "RANK is 3 and PMI_RANK is 1, of 6");
	/* torchrun on each host, started by mpirun, gives ranks of its own */
	good("RANK=3 WORLD_SIZE=4 MASTER_ADDR=h TORCHELASTIC_RUN_ID=x " OMPI, "torchrun", 3, 4,
	     LAUNCHER_NO_RANK, "h", 29501);
}

static void test_jobs_have_ports_of_their_own(void **state)
{
	struct launcher found;
	char why[LAUNCHER_WHY], text[256];
	unsigned same = 0;
	uint16_t first;

	assert_int_equal(read_with(SLURM, why, &found), 0);
	first = found.port;
	assert_int_equal(read_with(SLURM, why, &found), 0);
	assert_int_equal(found.port, first);
	for (unsigned step = 1; step <= 100; step++) {
		snprintf(
			text, sizeof(text),
			"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NODELIST=a SLURM_JOB_ID=%u SLURM_STEP_ID=%u",
			991 + step % 2, step);
		assert_int_equal(read_with(text, why, &found), 0);
		same += found.port == first;
	}
	assert_true(same < 3);
}

static void first(const char *list, const char *host)
{
	char out[64];

	assert_int_equal(nodelist_first(list, out, sizeof(out)), 0);
	assert_string_equal(out, host);
}

static void test_lists_of_hosts(void **state)
{
	static const char *const bad_lists[] = { "",   "[",   "n[",   "n[]",	"n[x]", "n[1",
						 ",a", "a b", "n[1-", "a[1;2]", "a]" };
	char out[8];

	first("node[03-07,12],x9", "node03");
	first("node3", "node3");
	first("a,b", "a");
	first("x-9.cluster,y[1-2]", "x-9.cluster");
	first("n[12]", "n12");
	first("n[007,9]", "n007");
	first("r[1-2]n[01-16]", "r1n01");
	first("r[1-2]-gpu", "r1-gpu");
	for (unsigned i = 0; i < sizeof(bad_lists) / sizeof(bad_lists[0]); i++)
		assert_int_equal(nodelist_first(bad_lists[i], out, sizeof(out)), -EINVAL);
	assert_int_equal(nodelist_first("abcdefgh", out, sizeof(out)), -EINVAL);
	assert_int_equal(nodelist_first("abcdefg", out, sizeof(out)), 0);
}

/* An interface with an IPv4 address and the length of its network. */
struct interface {
	struct ifaddrs list;
	struct sockaddr_in address;
	struct sockaddr_in mask;
};

static void add(struct interface *at, struct interface *next, const char *address, unsigned length,
		unsigned flags)
{
	*at = (struct interface){ .address.sin_family = AF_INET, .mask.sin_family = AF_INET };
	inet_pton(AF_INET, address, &at->address.sin_addr);
	at->mask.sin_addr.s_addr = htonl(~(uint32_t)0 << (32 - length));
	at->list = (struct ifaddrs){ .ifa_next = next ? &next->list : NULL,
				     .ifa_flags = flags,
				     .ifa_addr = (struct sockaddr *)&at->address,
				     .ifa_netmask = (struct sockaddr *)&at->mask };
}

static void choose(const struct interface *on, const char *description, const char *address)
{
	char out[LAUNCHER_HOST];

	assert_int_equal(launcher_choose_on("here", &on->list, description, out, sizeof(out)), 0);
	assert_string_equal(out, address);
}

static void test_the_address_of_rank_0(void **state)
{
	struct interface i[4];
	char text[LAUNCHER_ADDRESSES], out[LAUNCHER_HOST];

	add(&i[0], &i[1], "127.0.0.1", 8, IFF_UP | IFF_LOOPBACK);
	add(&i[1], &i[2], "172.17.0.1", 16, IFF_UP);
	add(&i[2], &i[3], "192.168.9.9", 24, 0);
	add(&i[3], NULL, "10.1.0.7", 16, IFF_UP);
	/* the network of an interface that is up */
	choose(i, "there 172.17.0.1 192.168.9.1 10.1.0.3", "10.1.0.3");
	choose(i, "there 8.8.8.8 10.1.0.3", "10.1.0.3");
	/* no network in common */
	choose(i, "there 8.8.8.8 9.9.9.9", "8.8.8.8");
	choose(i, "there 172.17.0.1 8.8.8.8", "8.8.8.8");
	/* the same host */
	choose(i, "here 10.1.0.7", "10.1.0.7");
	choose(i, "there fd00::1", "fd00::1");
	assert_int_equal(launcher_choose_on("here", &i[0].list, "there", out, sizeof(out)),
			 -EINVAL);
	assert_int_equal(launcher_choose_on("here", &i[0].list, "there x y", out, sizeof(out)),
			 -EINVAL);
	assert_int_equal(
		launcher_choose_on("here", &i[0].list, "there 172.17.0.1", out, sizeof(out)),
		-EINVAL);
	/* this host, whatever it has */
	assert_int_equal(launcher_addresses(text), 0);
	assert_int_equal(launcher_choose(text, out, sizeof(out)), 0);
}

/* For the leak sanitizer: what libpmix allocates when it finds no server is its own. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libpmix.so\n";
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_launcher),
		cmocka_unit_test(test_the_innermost_launcher_counts),
		cmocka_unit_test(test_godwit_overrides),
		cmocka_unit_test(test_bad_values),
		cmocka_unit_test(test_launchers_that_contradict),
		cmocka_unit_test(test_jobs_have_ports_of_their_own),
		cmocka_unit_test(test_lists_of_hosts),
		cmocka_unit_test(test_the_address_of_rank_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
