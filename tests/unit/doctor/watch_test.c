/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two samples of a host, of which the second has other counters: rates, shares and their order. Counters that wrap, stop, are
 * reset, cannot be read or are not there; ports that come and go; queue pairs by process; recordings.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor/watch.h"
#include "trees.h"

#define S UINT64_C(1000000000)

#define NIC0  "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/"
#define PORT0 "[" NIC0 "infiniband/mlx5_0/ports/1]\n"

/* The samples of one comparison, and what came out. */
struct pair_of_samples {
	struct watch_sample before, now;
	struct watch_view view;
};

static void compare(struct pair_of_samples *pair, const char *tree, const char *first,
		    const char *second, uint64_t later_ns)
{
	watch_read(tree_open(tree, first), (int64_t)(100 * S), false, &pair->before);
	watch_read(tree_open(tree, second), (int64_t)(100 * S + later_ns), false, &pair->now);
	watch_carry(&pair->before, &pair->now);
	watch_compare(&pair->before, &pair->now, &pair->view);
}

static void end(struct pair_of_samples *pair)
{
	watch_view_free(&pair->view);
	watch_sample_free(&pair->before);
	watch_sample_free(&pair->now);
}

static const struct watch_row *row(const struct pair_of_samples *pair, const char *name)
{
	for (size_t i = 0; i < pair->view.row_count; i++) {
		if (strcmp(pair->view.rows[i].name, name) == 0)
			return &pair->view.rows[i];
	}
	return NULL;
}

static void assert_value(const struct watch_row *row, enum watch_metric metric, double value)
{
	const struct watch_value *v = &row->values[metric];

	assert_true(v->has && v->known);
	assert_true(v->value > value - 1e-6 - value * 1e-6 &&
		    v->value < value + 1e-6 + value * 1e-6);
}

static void assert_unknown(const struct watch_row *row, enum watch_metric metric)
{
	assert_true(row->values[metric].has && !row->values[metric].known);
	assert_true(row->values[metric].value <= 0);
}

static void test_rates(void **state)
{
	struct pair_of_samples pair;
	const struct watch_row *port;

	/* In two seconds: 50 GB in words of four bytes, a million packets, and 0.1 s of pause. */
	compare(&pair, "mlx5-roce", "",
		PORT0
		"counters/port_rcv_data 912500000000\ncounters/port_rcv_packets 1001000000\n"
		"hw_counters/packet_seq_err 13\nhw_counters/np_cnp_sent 4300\n"
		"[/.godwit]\nethtool/ens1np0/stats rx_discards_phy 0\\nrx_prio3_pause_duration 204000\n",
		2 * S);
	port = row(&pair, "mlx5_0/1");
	assert_non_null(port);
	assert_true(port == &pair.view.rows[0]);
	assert_string_equal(port->state, "active");
	assert_string_equal(port->netdev, "ens1np0");
	assert_int_equal(port->rate_bps, UINT64_C(400000000000));
	assert_value(port, WATCH_RX, 200e9);
	assert_value(port, WATCH_TX, 0);
	assert_value(port, WATCH_RETRANSMITTED, 5);
	assert_value(port, WATCH_CNP, 100);
	assert_value(port, WATCH_PAUSED, 0.1);
	assert_value(port, WATCH_LOST, 0);
	assert_string_equal(port->reason, "retransmit");
	port = row(&pair, "mlx5_1/1");
	assert_non_null(port);
	assert_value(port, WATCH_RX, 0);
	assert_string_equal(port->reason, "");
	end(&pair);
}

static void test_one_sample(void **state)
{
	struct watch_sample sample;
	struct watch_view view;

	watch_read(tree_open("mlx5-roce", ""), 5, false, &sample);
	watch_compare(NULL, &sample, &view);
	assert_true(view.seconds <= 0 && view.row_count > 1);
	for (size_t i = 0; i < view.row_count; i++) {
		for (unsigned m = 0; m < WATCH_METRICS; m++)
			assert_false(view.rows[i].values[m].known);
	}
	watch_view_free(&view);
	/* A clock that was set back gives no rate. */
	watch_compare(&sample, &sample, &view);
	assert_false(view.rows[0].values[WATCH_RX].known);
	watch_view_free(&view);
	watch_sample_free(&sample);
}

static void test_counters(void **state)
{
	struct pair_of_samples pair;
	const struct watch_row *port;

	/* 32 bits, wrapped. */
	compare(&pair, "mlx5-roce", PORT0 "hw_counters/packet_seq_err 4294967290\n",
		PORT0 "hw_counters/packet_seq_err 4\n", S);
	assert_value(row(&pair, "mlx5_0/1"), WATCH_RETRANSMITTED, 10);
	end(&pair);
	/* Reset: not known, and the others do not make it 0. */
	compare(&pair, "mlx5-roce", PORT0 "hw_counters/packet_seq_err 1000\n",
		PORT0 "hw_counters/packet_seq_err 4\n", S);
	assert_unknown(row(&pair, "mlx5_0/1"), WATCH_RETRANSMITTED);
	end(&pair);
	/* Stopped at its largest value; another one still counts: at least that. */
	compare(&pair, "mlx5-roce", PORT0 "counters/port_xmit_discards 65535\n",
		PORT0 "counters/port_xmit_discards 65535\nhw_counters/out_of_buffer 100\n", S);
	port = row(&pair, "mlx5_0/1");
	assert_true(port->values[WATCH_LOST].known && port->values[WATCH_LOST].least);
	assert_true(port->values[WATCH_LOST].value > 0);
	end(&pair);
	compare(&pair, "mlx5-roce", PORT0 "counters/port_xmit_discards 65535\n",
		PORT0 "counters/port_xmit_discards 65535\n", S);
	assert_unknown(row(&pair, "mlx5_0/1"), WATCH_LOST);
	end(&pair);
	compare(&pair, "mlx5-roce", PORT0 "counters/port_rcv_data 4294967295\n",
		PORT0 "counters/port_rcv_data 4294967295\n", S);
	assert_unknown(row(&pair, "mlx5_0/1"), WATCH_RX);
	end(&pair);
}

static void test_unreadable(void **state)
{
	struct pair_of_samples pair;
	const struct watch_row *port;

	compare(&pair, "mlx5-roce", "",
		PORT0 "counters/port_rcv_data !EACCES\ncounters/port_xmit_data rubbish\n"
		      "hw_counters/np_ecn_marked_roce_packets !EINVAL\nrate !EIO\n",
		S);
	port = row(&pair, "mlx5_0/1");
	assert_unknown(port, WATCH_RX);
	assert_unknown(port, WATCH_TX);
	assert_unknown(port, WATCH_ECN);
	assert_int_equal(port->rate_bps, 0);
	end(&pair);
	/* "N/A (no PMA)" and what is not there at all: the port has no such counter. */
	compare(&pair, "mlx5-roce", PORT0 "counters/port_rcv_data N/A (no PMA)\n- hw_counters\n",
		PORT0 "counters/port_rcv_data N/A (no PMA)\n- hw_counters\n", S);
	port = row(&pair, "mlx5_0/1");
	assert_false(port->values[WATCH_RX].has || port->values[WATCH_RETRANSMITTED].has ||
		     port->values[WATCH_CNP].has);
	end(&pair);
}

static void test_ports_that_go(void **state)
{
	struct pair_of_samples pair;
	struct watch_sample third;
	struct watch_view view;
	const struct watch_row *port;

	compare(&pair, "mlx5-roce", "", "- /sys/class/infiniband/mlx5_1\n", S);
	port = &pair.view.rows[0];
	assert_string_equal(port->name, "mlx5_1/1");
	assert_true(port->gone);
	assert_string_equal(port->reason, "gone");
	for (unsigned m = 0; m < WATCH_METRICS; m++)
		assert_false(port->values[m].known);
	/* Still gone in the next view, and unknown when it is back: nobody knows what it counted meanwhile. */
	watch_read(tree_open("mlx5-roce", ""), (int64_t)(102 * S), false, &third);
	watch_carry(&pair.now, &third);
	watch_compare(&pair.now, &third, &view);
	for (size_t i = 0; i < view.row_count; i++) {
		if (strcmp(view.rows[i].name, "mlx5_1/1") != 0)
			continue;
		assert_false(view.rows[i].gone);
		assert_unknown(&view.rows[i], WATCH_RX);
	}
	watch_view_free(&view);
	watch_sample_free(&third);
	end(&pair);
	compare(&pair, "mlx5-roce", "", PORT0 "state 1: DOWN\n", S);
	assert_string_equal(pair.view.rows[0].name, "mlx5_0/1");
	assert_string_equal(pair.view.rows[0].reason, "down");
	end(&pair);
}

static void test_drivers(void **state)
{
	static const char *const rdma[] = { "mlx5_0/1", "mlx5_0/1", "bnxt_re0/1", "rocep1s0/1" };
	struct pair_of_samples pair;

	/* Every tree has ports, and nothing stands still that cannot be read. */
	for (size_t i = 0; i < TREE_COUNT; i++) {
		compare(&pair, trees[i], "", "", S);
		assert_true(pair.view.row_count > 0);
		if (i < 3)
			assert_non_null(row(&pair, rdma[i]));
		end(&pair);
	}
	compare(&pair, "bnxt-re", "", "", S);
	assert_value(row(&pair, "bnxt_re0/1"), WATCH_RX_PACKETS, 0);
	end(&pair);
}

static void test_queues(void **state)
{
	struct watch_sample sample;

	watch_read(tree_open("mlx5-roce",
			     "[/.godwit/netlink/rdma]\n"
			     "qp/mlx5_0 qp 1 type 1 state 3 pid 0\\nqp 2 type 2 state 3 pid 77\\n"
			     "qp 3 type 2 state 3 pid 77\\nrubbish\\nqp 4 pid x\n"
			     "qp/mlx5_1 \n/proc/77/comm train.py\n"),
		   5, false, &sample);
	assert_null(sample.queues_unknown);
	assert_int_equal(sample.queue_count, 2);
	assert_string_equal(sample.queues[0].process, "kernel");
	assert_string_equal(sample.queues[1].process, "train.py");
	assert_int_equal(sample.queues[1].count, 2);
	watch_sample_free(&sample);
	watch_read(tree_open("mlx5-roce", "/.godwit/netlink/rdma/qp/mlx5_0 !EPERM\n"), 5, false,
		   &sample);
	assert_string_equal(sample.queues_unknown, "it needs root");
	watch_sample_free(&sample);
}

/* Prints a view in every form; returns the text, which the caller frees. */
static char *print(const struct pair_of_samples *pair, char **prometheus)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	watch_print(&pair->view, false, out);
	fclose(out);
	out = open_memstream(prometheus, &length);
	watch_prometheus(&pair->now, out);
	fclose(out);
	return text;
}

static void test_text(void **state)
{
	struct pair_of_samples pair;
	char *text, *prometheus;
	json_t *line;

	compare(&pair, "mlx5-roce", "",
		PORT0
		"counters/port_rcv_data 912500000000\ncounters/port_xmit_data !EACCES\n"
		"counters/symbol_error 65535\ncounters/port_xmit_discards 65535\nhw_counters/packet_seq_err 14100\n",
		S);
	text = print(&pair, &prometheus);
	assert_non_null(strstr(text, "mlx5_0/1     400G   400G 100      ?   ?"));
	for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
		assert_true(strcspn(at, "\n") <= 80);
	assert_non_null(strstr(prometheus,
			       "godwit_port_receive_bytes_total{port=\"mlx5_0/1\",kind=\"rdma\","
			       "counter=\"port_rcv_data\"} 3650000000000\n"));
	assert_null(strstr(prometheus, "transmit_bytes_total{port=\"mlx5_0/1\""));
	assert_non_null(strstr(prometheus, "godwit_port_counter_saturated{port=\"mlx5_0/1\","
					   "kind=\"rdma\",counter=\"symbol_error\"} 1\n"));
	assert_null(strstr(prometheus, "counter=\"port_xmit_discards\"} 65535"));
	assert_non_null(strstr(prometheus, "counter=\"rx_prio3_pause_duration\"} 0.004000\n"));
	line = watch_json(&pair.view);
	assert_non_null(line);
	json_decref(line);
	free(text);
	free(prometheus);
	end(&pair);
}

/* Views of a recording as text. */
static char *replay(const char *path, unsigned *views, int *rc)
{
	struct watch_sample before = { 0 }, now;
	struct watch_replay *player = NULL;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	*views = 0;
	*rc = watch_replay_open(path, &player);
	while (*rc == 0 && (*rc = watch_replay_next(player, false, &now)) > 0) {
		struct watch_view view;

		if (before.reader)
			watch_carry(&before, &now);
		watch_compare(before.reader ? &before : NULL, &now, &view);
		watch_print(&view, false, out);
		watch_view_free(&view);
		if (before.reader)
			watch_sample_free(&before);
		before = now;
		++*views;
		*rc = 0;
	}
	if (before.reader)
		watch_sample_free(&before);
	watch_replay_close(player);
	fclose(out);
	return text;
}

static void test_recordings(void **state)
{
	static const char *const overlays[] = {
		"",
		PORT0 "counters/port_rcv_data 912500000000\n",
		PORT0 "counters/port_rcv_data 912500000000\n",
		"- /sys/class/infiniband/mlx5_1\n",
		PORT0 "counters/port_rcv_data !EACCES\nstate \\x21odd\\x7f\n",
		""
	};
	char path[] = "/tmp/godwit-watch-XXXXXX";
	struct watch_recorder *recorder;
	struct watch_sample before = { 0 }, now;
	char *live = NULL, *played;
	size_t length;
	unsigned views;
	FILE *out = open_memstream(&live, &length);
	int rc, fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(watch_record_open(path, &recorder), 0);
	for (size_t i = 0; i < sizeof(overlays) / sizeof(overlays[0]); i++) {
		struct watch_view view;

		watch_read(tree_open("mlx5-roce", overlays[i]), (int64_t)((100 + i) * S), false,
			   &now);
		if (before.reader)
			watch_carry(&before, &now);
		assert_int_equal(watch_record(recorder, &now), 0);
		watch_compare(before.reader ? &before : NULL, &now, &view);
		watch_print(&view, false, out);
		watch_view_free(&view);
		if (before.reader)
			watch_sample_free(&before);
		before = now;
	}
	watch_sample_free(&before);
	fclose(out);
	assert_int_equal(watch_record_close(recorder), 0);
	played = replay(path, &views, &rc);
	assert_int_equal(rc, 0);
	assert_int_equal(views, 6);
	assert_string_equal(played, live);
	free(played);
	free(live);
	unlink(path);
}

static void test_damaged_recordings(void **state)
{
	static const struct {
		const char *text;
		unsigned views;
		int rc;
	} files[] = {
		{ "", 0, -EINVAL },
		{ "rubbish\n", 0, -EINVAL },
		{ "# godwit watch 1\n", 0, 0 },
		{ "# godwit watch 1\n== 5\n", 0, -EINVAL },
		{ "# godwit watch 1\n== x full\n", 0, -EINVAL },
		{ "# godwit watch 1\n== 5 full", 0, -EINVAL },
		{ "# godwit watch 1\n== 5 full\n== 6\n== 7\n", 3, 0 },
		{ "# godwit watch 1\n# by hand\n== 5 full\n/sys/class/net/a/mtu 1500\n== 6\n", 2,
		  0 },
		{ "# godwit watch 1\n== 5 full\n[no path\n", 0, -EINVAL },
		{ "# godwit watch 1\n== 5 full\n/a b\n== 99999999999999999999\n", 1, -EINVAL },
	};
	char path[] = "/tmp/godwit-watch-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		unsigned views;
		int rc;

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, files[i].text, strlen(files[i].text), 0),
				 strlen(files[i].text));
		free(replay(path, &views, &rc));
		if (rc != files[i].rc || views != files[i].views)
			print_error("recording %zu: %d, %u views\n", i, rc, views);
		assert_true(rc == files[i].rc && views == files[i].views);
	}
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),	      cmocka_unit_test(test_one_sample),
		cmocka_unit_test(test_counters),      cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_ports_that_go), cmocka_unit_test(test_drivers),
		cmocka_unit_test(test_queues),	      cmocka_unit_test(test_text),
		cmocka_unit_test(test_recordings),    cmocka_unit_test(test_damaged_recordings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
