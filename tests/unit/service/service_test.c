/* SPDX-License-Identifier: BSD-3-Clause */
/* Services: attributes, posted work, ownership, wake-ups, closing, fork. Nothing is sent here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <godwit/service.h>

#define PATIENCE_S 30

static const struct gw_context_attr loopback = { .fabric = "roce:127.0.0.1@0", .max_qps = 64 };

static struct gw_service *open_service(unsigned threads, uint64_t spin_ns)
{
	struct gw_service_attr attr = {
		.context = &loopback, .threads = threads, .spin_ns = spin_ns, .name = "unit"
	};
	struct gw_service *service;

	assert_int_equal(gw_service_open(&attr, &service), 0);
	return service;
}

static void nap_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* Waits for the semaphore; a wake-up that was lost fails the test. */
static void await(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	while (sem_timedwait(sem, &until)) {
		if (errno != EINTR)
			fail_msg("work was not run in %d s", PATIENCE_S);
	}
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static void test_attributes(void **state)
{
	const int no_cpu = 100000;
	struct gw_service_attr attr = { .context = &loopback }, bad;
	struct gw_service *service = NULL;

	assert_int_equal(gw_service_open(NULL, &service), -EINVAL);
	assert_int_equal(gw_service_open(&attr, NULL), -EINVAL);
	bad = (struct gw_service_attr){ 0 };
	assert_int_equal(gw_service_open(&bad, &service), -EINVAL);
	bad = attr;
	bad.threads = GW_SERVICE_THREADS_MAX + 1;
	assert_int_equal(gw_service_open(&bad, &service), -EINVAL);
	bad = attr;
	bad.reserved[5] = 1;
	assert_int_equal(gw_service_open(&bad, &service), -EINVAL);
	bad = attr;
	bad.name = "a name of 16 let";
	assert_int_equal(gw_service_open(&bad, &service), -EINVAL);
	bad = attr;
	bad.cpus = &no_cpu;
	assert_int_equal(gw_service_open(&bad, &service), -EINVAL);
	bad.cpu_count = 1;
	assert_int_equal(gw_service_open(&bad, &service), -EINVAL);
	bad = attr;
	bad.context = &(struct gw_context_attr){ .fabric = "roce:192.0.2.1" };
	assert_int_equal(gw_service_open(&bad, &service), -EADDRNOTAVAIL);
	assert_true(strlen(gw_context_error(NULL)) > 0);
	assert_null(service);

	assert_int_equal(gw_service_open(&attr, &service), 0);
	assert_int_equal(gw_service_threads(service), 1);
	assert_non_null(gw_service_context(service, 0));
	assert_null(gw_service_context(service, 1));
	assert_int_equal(gw_service_post(service, 1, NULL), -EINVAL);
	assert_int_equal(gw_service_post(service, 0, NULL), -EINVAL);
	assert_int_equal(gw_service_enter(service, 1), -EINVAL);
	assert_int_equal(gw_service_close(service), 0);
	assert_int_equal(gw_service_close(NULL), -EINVAL);
	assert_int_equal(gw_service_threads(NULL), 0);
}

/* Reads a line of a thread's status, of the thread with this name. */
static bool thread_status(const char *name, const char *key, char *value, size_t size)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	bool found = false;

	assert_non_null(tasks);
	while (!found && (task = readdir(tasks))) {
		char path[300], line[300];
		bool named = false;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			char *text = strchr(line, '\t');

			if (!text)
				continue;
			line[strcspn(line, "\n")] = '\0';
			*text++ = '\0';
			named |= strcmp(line, "Name:") == 0 && strcmp(text, name) == 0;
			if (named && strcmp(line, key) == 0) {
				snprintf(value, size, "%s", text);
				found = true;
			}
		}
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return found;
}

static void test_threads_are_named_pinned_and_deaf(void **state)
{
	struct gw_service_attr attr = {
		.context = &loopback, .threads = 2, .name = "twelve chars", .cpu_count = 1
	};
	struct gw_service *service;
	char value[64];
	cpu_set_t allowed;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	attr.cpus = &cpu;
	assert_int_equal(gw_service_open(&attr, &service), 0);
	assert_true(thread_status("twelve chars/1", "SigBlk:", value, sizeof(value)));
	/* All but SIGKILL, SIGSTOP and those that the C library keeps for itself. */
	assert_int_equal(strtoull(value, NULL, 16) | 1u << (SIGKILL - 1) | 1u << (SIGSTOP - 1) |
				 UINT64_C(3) << 31,
			 UINT64_MAX);
	assert_true(thread_status("twelve chars/0", "Cpus_allowed_list:", value, sizeof(value)));
	assert_int_equal(atoi(value), cpu);
	assert_null(strpbrk(value, ",-"));
	assert_int_equal(gw_service_close(service), 0);
}

/* ---- posted work ------------------------------------------------------------------------------------------------- */

enum { PRODUCERS = 3, ITEMS = 4000, MEMBERS = 2 };

struct scene {
	struct gw_service *service;
	/* by member: threads inside its context, and the number expected next from each producer */
	atomic_int inside[MEMBERS];
	unsigned next[MEMBERS][PRODUCERS];
	atomic_uint ran;
	atomic_uint wrong;
	atomic_bool stop;
};

struct item {
	struct gw_service_work work;
	struct scene *scene;
	unsigned member, producer, number;
};

static void run_item(struct gw_service_work *work, struct gw_context *ctx)
{
	struct item *item = (struct item *)work;
	struct scene *scene = item->scene;

	if (atomic_fetch_add(&scene->inside[item->member], 1) != 0 ||
	    ctx != gw_service_context(scene->service, item->member) ||
	    scene->next[item->member][item->producer]++ != item->number)
		atomic_fetch_add(&scene->wrong, 1);
	atomic_fetch_sub(&scene->inside[item->member], 1);
	atomic_fetch_add(&scene->ran, 1);
}

struct producer {
	struct scene *scene;
	unsigned number;
	struct item items[ITEMS];
};

static void *produce(void *arg)
{
	struct producer *producer = arg;
	unsigned counts[MEMBERS] = { 0 };

	for (unsigned i = 0; i < ITEMS; i++) {
		struct item *item = &producer->items[i];
		unsigned member = i / 7 % MEMBERS;

		*item = (struct item){ { run_item, NULL },
				       producer->scene,
				       member,
				       producer->number,
				       counts[member]++ };
		if (gw_service_post(producer->scene->service, member, &item->work))
			atomic_fetch_add(&producer->scene->wrong, 1);
		if (i % 100 == 99)
			nap_us(50);
	}
	return NULL;
}

/* Makes progress in place of the services' threads, now and then. */
static void *visit(void *arg)
{
	struct scene *scene = arg;

	for (unsigned i = 0; !atomic_load(&scene->stop); i++) {
		unsigned member = i % MEMBERS;

		if (i % 3 == 0) {
			if (gw_service_enter(scene->service, member) ||
			    atomic_fetch_add(&scene->inside[member], 1) != 0)
				atomic_fetch_add(&scene->wrong, 1);
			gw_progress(gw_service_context(scene->service, member));
			atomic_fetch_sub(&scene->inside[member], 1);
			gw_service_leave(scene->service, member);
		} else {
			gw_service_progress(scene->service, member);
		}
		if (i % 16 == 0)
			nap_us(100);
	}
	return NULL;
}

static void test_work_runs_once_in_order_by_the_owner(void **state)
{
	struct producer *producers = calloc(PRODUCERS, sizeof(*producers));
	pthread_t threads[PRODUCERS], visitor;
	struct scene scene = { 0 };

	assert_non_null(producers);
	scene.service = open_service(MEMBERS, 0);
	assert_int_equal(pthread_create(&visitor, NULL, visit, &scene), 0);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		producers[i].scene = &scene;
		producers[i].number = i;
		assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&scene.stop, true);
	pthread_join(visitor, NULL);
	assert_int_equal(gw_service_close(scene.service), 0);
	assert_int_equal(scene.wrong, 0);
	assert_int_equal(scene.ran, PRODUCERS * ITEMS);
	free(producers);
}

struct signalled {
	struct gw_service_work work;
	sem_t done;
	struct gw_service *service;
	unsigned times;
	int posted;
};

static void run_signalled(struct gw_service_work *work, struct gw_context *ctx)
{
	struct signalled *item = (struct signalled *)work;

	(void)ctx;
	if (item->times && --item->times)
		item->posted = gw_service_post(item->service, 0, work);
	else
		sem_post(&item->done);
}

static void signalled_init(struct signalled *item, struct gw_service *service, unsigned times)
{
	*item = (struct signalled){ { run_signalled, NULL }, .service = service, .times = times };
	assert_int_equal(sem_init(&item->done, 0, 0), 0);
}

/* The thread falls asleep between two items, at every moment of that sooner or later. */
static void test_no_wake_up_is_lost(void **state)
{
	struct gw_service *service = open_service(1, 0);
	struct signalled item;

	signalled_init(&item, service, 0);
	for (unsigned i = 0; i < 20000; i++) {
		assert_int_equal(gw_service_post(service, 0, &item.work), 0);
		await(&item.done);
		for (volatile unsigned j = 0; j < i % 1500; j++)
			;
	}
	for (unsigned i = 0; i < 20; i++) {
		nap_us(2000);
		assert_int_equal(gw_service_post(service, 0, &item.work), 0);
		await(&item.done);
	}
	assert_int_equal(gw_service_close(service), 0);
}

static void test_work_posts_itself(void **state)
{
	struct gw_service *service = open_service(1, UINT64_MAX);
	struct signalled item;

	signalled_init(&item, service, 1000);
	assert_int_equal(gw_service_post(service, 0, &item.work), 0);
	await(&item.done);
	assert_int_equal(item.times, 0);
	assert_int_equal(gw_service_close(service), 0);
}

/* An owner that stays has its thread wait; what is posted meanwhile is run when it leaves. */
static void test_owner_keeps_the_thread_out(void **state)
{
	struct gw_service *service = open_service(1, 0);
	struct signalled item;
	int value;

	signalled_init(&item, service, 0);
	for (unsigned i = 0; i < 50; i++) {
		assert_int_equal(gw_service_enter(service, 0), 0);
		assert_int_equal(gw_service_post(service, 0, &item.work), 0);
		nap_us(1000);
		sem_getvalue(&item.done, &value);
		assert_int_equal(value, 0);
		assert_int_equal(gw_service_leave(service, 0), 0);
		await(&item.done);
	}
	/* The next owner runs it first. */
	assert_int_equal(gw_service_enter(service, 0), 0);
	assert_int_equal(gw_service_enter(service, 0), -EDEADLK);
	assert_int_equal(gw_service_try_enter(service, 0), -EBUSY);
	assert_int_equal(gw_service_progress(service, 0), -EBUSY);
	assert_int_equal(gw_service_close(service), -EDEADLK);
	assert_int_equal(gw_service_leave(service, 0), 0);
	assert_int_equal(gw_service_close(service), 0);
}

static unsigned long switches(const char *thread)
{
	char value[64];

	assert_true(thread_status(thread, "voluntary_ctxt_switches:", value, sizeof(value)));
	return strtoul(value, NULL, 10);
}

/* Polls, and counts the times that the thread was woken; returns how many are to be expected at most. */
static unsigned long poll_for_a_while(struct gw_service *service, unsigned long *woken)
{
	unsigned long before = switches("unit/0"), calls = 0;
	struct timespec start, now;
	long ms;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		calls += gw_service_progress(service, 0) >= 0;
		/* It does something else in between, so that the thread finds the context free. */
		for (volatile unsigned i = 0; i < 5000; i++)
			;
		clock_gettime(CLOCK_MONOTONIC, &now);
		ms = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
	} while (ms < 60 || calls < 6000);
	*woken += switches("unit/0") - before;
	/* Two for each millisecond, and not one for each call; the rest is for a machine that stops the caller in between. */
	return 4 * (unsigned long)ms + calls / 6;
}

/* A program that polls makes progress itself: the thread sleeps through it, half a millisecond at a time. */
static void test_polling_is_left_to_the_caller(void **state)
{
	struct gw_service *service = open_service(1, 0);
	unsigned long woken = 0, most = 0;

	for (unsigned i = 0; i < 6; i++)
		most += poll_for_a_while(service, &woken);
	assert_in_range(woken, 0, most);
	assert_int_equal(gw_service_close(service), 0);
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

static void run_close(struct gw_service_work *work, struct gw_context *ctx)
{
	struct signalled *item = (struct signalled *)work;

	(void)ctx;
	item->posted = gw_service_close(item->service);
	sem_post(&item->done);
}

/* Most threads are asleep when the items are posted, and find the end of the service when they wake. */
static void test_close_runs_what_is_posted(void **state)
{
	enum { COUNT = 3 };

	for (unsigned round = 0; round < 100; round++) {
		struct gw_service *service = open_service(1, 0);
		struct signalled items[COUNT];

		nap_us(200);
		for (unsigned i = 0; i < COUNT; i++) {
			signalled_init(&items[i], service, 0);
			assert_int_equal(gw_service_post(service, 0, &items[i].work), 0);
		}
		assert_int_equal(gw_service_close(service), 0);
		for (unsigned i = 0; i < COUNT; i++)
			assert_int_equal(sem_trywait(&items[i].done), 0);
	}
}

static void test_close_from_within_is_refused(void **state)
{
	struct gw_service *service = open_service(2, 0);
	struct signalled item;

	signalled_init(&item, service, 0);
	item.work.run = run_close;
	assert_int_equal(gw_service_post(service, 1, &item.work), 0);
	await(&item.done);
	assert_int_equal(item.posted, -EDEADLK);
	assert_int_equal(gw_service_close(service), 0);
}

/* Work that posts itself for ever is refused in the end: the service can be closed. */
static void test_close_ends_work_that_posts_itself(void **state)
{
	struct gw_service *service = open_service(1, 0);
	struct signalled item;

	signalled_init(&item, service, UINT32_MAX);
	assert_int_equal(gw_service_post(service, 0, &item.work), 0);
	nap_us(1000);
	assert_int_equal(gw_service_close(service), 0);
	assert_int_equal(item.posted, -ESHUTDOWN);
}

static void test_child_is_refused(void **state)
{
	struct gw_service *service = open_service(1, 0);
	struct signalled item;
	int status;
	pid_t child;

	signalled_init(&item, service, 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool refused = gw_service_post(service, 0, &item.work) == -ESTALE &&
			       gw_service_enter(service, 0) == -ESTALE &&
			       gw_service_try_enter(service, 0) == -ESTALE &&
			       gw_service_progress(service, 0) == -ESTALE &&
			       gw_service_leave(service, 0) == -ESTALE &&
			       gw_service_close(service) == -ESTALE;

		_exit(refused ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(gw_service_post(service, 0, &item.work), 0);
	await(&item.done);
	assert_int_equal(gw_service_close(service), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_threads_are_named_pinned_and_deaf),
		cmocka_unit_test(test_work_runs_once_in_order_by_the_owner),
		cmocka_unit_test(test_no_wake_up_is_lost),
		cmocka_unit_test(test_work_posts_itself),
		cmocka_unit_test(test_owner_keeps_the_thread_out),
		cmocka_unit_test(test_polling_is_left_to_the_caller),
		cmocka_unit_test(test_close_runs_what_is_posted),
		cmocka_unit_test(test_close_from_within_is_refused),
		cmocka_unit_test(test_close_ends_work_that_posts_itself),
		cmocka_unit_test(test_child_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
