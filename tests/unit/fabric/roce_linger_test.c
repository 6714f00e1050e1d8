/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether an endpoint looks for the next batch or answer before it sleeps: the decision alone, with times of the test's own. */
#include "../message/pair.h"

#include "fabric/roce/endpoint.h"

#define US UINT64_C(1000)

static struct roce_endpoint endpoint;

static void begin(void)
{
	endpoint.lingering = (struct lingering){ 0 };
	endpoint.now_ns = 1000 * US;
}

/* Looks again and again until something comes after so long, or until it would sleep; whether it came first. */
static bool wait_for(uint64_t after_ns, bool batch)
{
	uint64_t came_ns = endpoint.now_ns + after_ns;

	while (endpoint.now_ns < came_ns) {
		if (!linger(&endpoint)) {
			endpoint.now_ns = came_ns;
			linger_read(&endpoint, batch, endpoint.now_ns);
			return false;
		}
		endpoint.now_ns += US;
	}
	linger_read(&endpoint, batch, endpoint.now_ns);
	return true;
}

static void who_got_no_batch_sleeps(void **state)
{
	(void)state;
	begin();
	assert_true(!linger(&endpoint));
	endpoint.now_ns += 100 * US;
	linger_read(&endpoint, false, endpoint.now_ns);
	assert_true(!linger(&endpoint));
}

static void who_gets_batches_looks_for_the_next(void **state)
{
	(void)state;
	begin();
	linger_read(&endpoint, true, endpoint.now_ns);
	for (int i = 0; i < 100; i++)
		assert_true(wait_for(10 * US, true));
	/* The end of a message comes alone. */
	assert_true(wait_for(10 * US, false));
	assert_true(wait_for(10 * US, true));
}

static void it_sleeps_when_nothing_comes(void **state)
{
	(void)state;
	begin();
	linger_read(&endpoint, true, endpoint.now_ns);
	for (int looks = 0; linger(&endpoint); looks++) {
		assert_true(looks < 100);
		endpoint.now_ns += US;
	}
	assert_true(endpoint.now_ns > 1010 * US && endpoint.now_ns < 1040 * US);
	assert_true(!linger(&endpoint));
}

static void single_packets_end_it(void **state)
{
	(void)state;
	begin();
	linger_read(&endpoint, true, endpoint.now_ns);
	for (int i = 0; i < 8; i++)
		linger_read(&endpoint, false, endpoint.now_ns);
	assert_true(!linger(&endpoint));
}

/* Batches so far apart that looking for them is a waste: of 1000 waits few are spent so. */
static void it_is_seldom_tried_where_it_is_in_vain(void **state)
{
	unsigned tried = 0;

	(void)state;
	begin();
	linger_read(&endpoint, true, endpoint.now_ns);
	for (int i = 0; i < 1000; i++) {
		uint64_t before = endpoint.now_ns;

		if (linger(&endpoint)) {
			tried++;
			while (linger(&endpoint))
				endpoint.now_ns += US;
		}
		endpoint.now_ns = before + 500 * US;
		linger_read(&endpoint, true, endpoint.now_ns);
	}
	assert_true(tried > 5 && tried < 30);
	/* They come faster again. */
	for (int i = 0; i < 70; i++)
		wait_for(10 * US, true);
	for (int i = 0; i < 100; i++)
		assert_true(wait_for(10 * US, true));
}

/* An answer that came 10 us after the wait began, and was read much later, for to wake up takes time. */
static void who_was_answered_soon_looks_for_the_next(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 8; i++) {
		assert_true(!linger(&endpoint));
		endpoint.now_ns += 60 * US;
		linger_read(&endpoint, false, endpoint.now_ns - 50 * US);
	}
	for (int i = 0; i < 100; i++)
		assert_true(wait_for(5 * US, false));
	/* Nothing comes: it sleeps in the end. */
	assert_true(!wait_for(100 * US, false));
}

static void who_sends_batches_sleeps(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 100; i++) {
		linger_wrote(&endpoint);
		assert_true(!wait_for(5 * US, false));
	}
}

static void who_was_answered_late_sleeps(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 100; i++) {
		assert_true(!linger(&endpoint));
		endpoint.now_ns += 40 * US;
		linger_read(&endpoint, false, endpoint.now_ns);
	}
	/* Nor is it an answer what comes to somebody who did not wait. */
	for (int i = 0; i < 100; i++)
		linger_read(&endpoint, false, endpoint.now_ns += US);
	assert_true(!linger(&endpoint));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_got_no_batch_sleeps),
		cmocka_unit_test(who_gets_batches_looks_for_the_next),
		cmocka_unit_test(it_sleeps_when_nothing_comes),
		cmocka_unit_test(single_packets_end_it),
		cmocka_unit_test(it_is_seldom_tried_where_it_is_in_vain),
		cmocka_unit_test(who_was_answered_soon_looks_for_the_next),
		cmocka_unit_test(who_sends_batches_sleeps),
		cmocka_unit_test(who_was_answered_late_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
