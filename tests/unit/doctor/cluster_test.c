/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eight hosts together: nothing is said if all are alike, and a host that differs is named with both values. Results of the
 * mesh: a slow host, a slow link, a direction, loss and saturation, each named and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>

#include "doctor/cluster.h"
#include "trees.h"

#define HOSTS 8u
#define NIC   "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"
#define NIC2  "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0"

/* Adds eight hosts of a tree; `odd` is laid over the fifth. */
static void add_hosts(struct cluster *cluster, const char *tree, const char *odd)
{
	const struct exam_attr attr = { 0 };

	for (unsigned i = 1; i <= HOSTS; i++) {
		char overlay[2048], file[32];

		snprintf(
			overlay, sizeof(overlay),
			"[/.godwit]\nhostname node%u\n[/proc/sys/kernel]\nosrelease 6.8.0-45\n[/sys/module]\nmlx5_core/version 24.10-0.7.0\n%s",
			i, i == 5 ? odd : "");
		snprintf(file, sizeof(file), "node%u.tar", i);
		assert_int_equal(cluster_add_host(cluster, file, tree_open(tree, overlay), &attr),
				 0);
	}
}

static void run(struct cluster *cluster, struct diagnosis *out)
{
	const struct exam_attr attr = { 0 };

	*out = (struct diagnosis){ 0 };
	assert_int_equal(cluster_run(cluster, &attr, out), 0);
	cluster_free(cluster);
	diagnosis_read(out);
}

static void print_findings(const struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		const struct finding *f = &diagnosis->findings[i];

		print_message("  %s %s [%s] %s: %s\n", severity_name(f->severity), f->object,
			      f->check, f->title, f->value);
	}
	print_message("  %s\n", diagnosis->conclusion);
}

static void test_alike(void **state)
{
	for (size_t i = 0; i < TREE_COUNT; i++) {
		struct cluster cluster = { 0 };
		struct diagnosis diagnosis;

		add_hosts(&cluster, trees[i], "");
		run(&cluster, &diagnosis);
		if (diagnosis.finding_count)
			print_findings(&diagnosis);
		assert_int_equal(diagnosis.finding_count, 0);
		assert_string_equal(diagnosis.host, "cluster of 8 hosts");
		assert_non_null(strstr(
			diagnosis.conclusion,
			"Nothing here keeps this cluster from its scaling targets: 8 hosts are set up alike"));
		diagnosis_free(&diagnosis);
	}
}

static void test_outliers(void **state)
{
	static const struct {
		const char *check;
		const char *overlay;
		const char *words;
		/* checks on one host that speak, too */
		const char *also;
	} rows[] = {
		{ "hosts-mtu", NIC "/net/ens1np0/mtu 4200\n" NIC2 "/net/ens2np0/mtu 4200\n",
		  "MTU of the RDMA interfaces: 7 of 8 hosts have 9000, node5 has 4200", "" },
		{ "hosts-mtu", NIC "/net/ens1np0/mtu 4200\n",
		  "node5 has mlx5_0: 4200, mlx5_1: 9000", "mtu-equal" },
		{ "hosts-kernel", "[/proc/sys/kernel]\nosrelease 5.15.0-91\n",
		  "kernel: 7 of 8 hosts have 6.8.0-45, node5 has 5.15.0-91", "" },
		{ "hosts-driver", "[/sys/module]\nmlx5_core/version 23.10-1.1.9\n",
		  "node5 has 23.10-1.1.9", "" },
		{ "hosts-gpu-driver", "[/sys/module]\nnvidia/version 550.54.15\n",
		  "node5 has 550.54.15", "" },
		{ "hosts-firmware",
		  NIC "/infiniband/mlx5_0/fw_ver 28.36.1010\n" NIC2
		      "/infiniband/mlx5_1/fw_ver 28.36.1010\n",
		  "node5 has 28.36.1010", "" },
		{ "hosts-ports", NIC "/infiniband/mlx5_0/ports/1/state 1: DOWN\n",
		  "7 of 8 hosts have 2 of 2, node5 has 1 of 2", "port-state" },
		{ "hosts-ports",
		  NIC "/infiniband/mlx5_0/ports/1/rate 200 Gb/sec (2X NDR)\n" NIC2
		      "/infiniband/mlx5_1/ports/1/rate 200 Gb/sec (2X NDR)\n",
		  "node5 has 200 Gb/sec (2X NDR)", "pcie-bandwidth" },
		{ "hosts-pfc",
		  "/.godwit/netlink/dcb/ens1np0 pfc_cap 8\\npfc_en 0\\napp 5 26 3\\napp 5 48 6\n"
		  "/.godwit/netlink/dcb/ens2np0 pfc_cap 8\\npfc_en 0\\napp 5 26 3\\napp 5 48 6\n",
		  "PFC: 7 of 8 hosts have priority 3, node5 has off", "" },
		{ "hosts-tc",
		  "/.godwit/environ HOME=/home/user\\nNCCL_NET=IB\\nNCCL_IB_TC=0\\nNCCL_SOCKET_IFNAME=eth0\\nNCCL_IB_QPS_PER_CONNECTION=4\n",
		  "node5 has 0, priority 0", "tc-chain,hosts-variables" },
		{ "hosts-variables",
		  "/.godwit/environ HOME=/home/user\\nNCCL_NET=IB\\nNCCL_IB_TC=106\\nNCCL_SOCKET_IFNAME=eth0\\nNCCL_IB_QPS_PER_CONNECTION=2\n",
		  "NCCL_IB_QPS_PER_CONNECTION: 7 of 8 hosts have 4, node5 has 2", "" },
		{ "hosts-variables",
		  "/.godwit/environ HOME=/home/user\\nNCCL_NET=IB\\nNCCL_IB_TC=106\\nNCCL_SOCKET_IFNAME=eth0\n",
		  "node5 has no value", "" },
		{ "hosts-gid",
		  NIC "/infiniband/mlx5_0/ports/1/gid_attrs/types/2 RoCE v2\n" NIC
		      "/infiniband/mlx5_0/ports/1/gid_attrs/types/3 IB/RoCE v1\n",
		  "7 of 8 hosts have 3 (RoCE v2), node5 has mlx5_0: 2 (RoCE v2)", "" },
		{ "hosts-plugin",
		  "/.godwit/library/libnccl-net.so loaded /opt/other/libnccl-net.so\\nsymbol ncclNetPlugin_v8\n",
		  "node5 has /opt/other/libnccl-net.so", "" },
		{ "hosts-routes", "/.godwit/netlink/rules rule from 10.0.0.11/32 table 101\n",
		  "routing rules", "" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cluster cluster = { 0 };
		struct diagnosis diagnosis;
		const struct finding *finding;
		bool right;

		add_hosts(&cluster, "mlx5-roce", rows[i].overlay);
		run(&cluster, &diagnosis);
		finding = finding_of(&diagnosis, rows[i].check);
		right = finding && strstr(finding->value, rows[i].words) &&
			strstr(finding->object, "node5") && finding->where[0];
		for (size_t j = 0; j < diagnosis.finding_count; j++)
			right &= strcmp(diagnosis.findings[j].check, rows[i].check) == 0 ||
				 strstr(rows[i].also, diagnosis.findings[j].check) != NULL;
		if (!right) {
			print_findings(&diagnosis);
			fail_msg("%s does not say \"%s\", or others speak", rows[i].check,
				 rows[i].words);
		}
		assert_non_null(strstr(diagnosis.conclusion,
				       "We are not hitting our scaling targets because "));
		assert_non_null(strstr(diagnosis.conclusion, "node5"));
		diagnosis_free(&diagnosis);
	}
}

/* What one host's own check finds on several hosts is one finding that names them. */
static void test_merge(void **state)
{
	const struct exam_attr attr = { 0 };
	struct cluster cluster = { 0 };
	struct diagnosis diagnosis;
	const struct finding *finding;

	for (unsigned i = 1; i <= 3; i++) {
		char overlay[256];

		snprintf(
			overlay, sizeof(overlay),
			"[/.godwit]\nhostname node%u\nlimits memlock 65536\\nnofile 65536\\nnofile_hard 65536\\nipc_lock 0\\nuid 1000\n",
			i);
		assert_int_equal(
			cluster_add_host(&cluster, "x", tree_open("mlx5-roce", overlay), &attr), 0);
	}
	run(&cluster, &diagnosis);
	finding = finding_of(&diagnosis, "memlock");
	assert_non_null(finding);
	assert_string_equal(finding->object, "node1, node2, node3");
	assert_non_null(strstr(diagnosis.conclusion, "on 3 of 3 hosts (node1, node2, node3; "));
	if (diagnosis_count(&diagnosis, SEVERITY_ERROR) != 1)
		print_findings(&diagnosis);
	assert_int_equal(diagnosis_count(&diagnosis, SEVERITY_ERROR), 1);
	diagnosis_free(&diagnosis);
}

/* What the pairs of a made-up mesh measure; each may be changed by a fault. */
struct measured {
	double alone_bps;
	double together_bps;
	double loss;
	double latency_us;
	/* loss of the fourth source port */
	double path_loss;
};

typedef void plant(unsigned from, unsigned to, struct measured *pair);

static json_t *mesh_json(plant *fault)
{
	json_t *hosts = json_array(), *pairs = json_array();
	unsigned noise = 1;

	for (unsigned i = 1; i <= HOSTS; i++)
		json_array_append_new(hosts,
				      json_pack("{s:o, s:s}", "name", json_sprintf("node%u", i),
						"address", "10.0.0.1"));
	for (unsigned from = 1; from <= HOSTS; from++) {
		for (unsigned to = 1; to <= HOSTS; to++) {
			struct measured pair = { .latency_us = 3.1 };
			json_t *ports;

			if (from == to)
				continue;
			ports = json_array();
			/* Every measurement is a few percent off. */
			noise = noise * 1103515245u + 12345u;
			pair.alone_bps = 98e9 * (1 + ((noise >> 16) % 100) / 2000.0);
			pair.together_bps = pair.alone_bps * 0.95;
			if (fault)
				fault(from, to, &pair);
			for (unsigned i = 0; i < 8; i++)
				json_array_append_new(ports,
						      json_pack("{s:i, s:f, s:f}", "source_port",
								50000 + i, "loss",
								i == 3 ? pair.path_loss : 0.0,
								"bps", pair.alone_bps));
			json_array_append_new(
				pairs,
				json_pack("{s:o, s:o, s:f, s:f, s:f, s:f, s:o}", "from",
					  json_sprintf("node%u", from), "to",
					  json_sprintf("node%u", to), "latency_us", pair.latency_us,
					  "alone_bps", pair.alone_bps, "together_bps",
					  pair.together_bps, "loss", pair.loss, "ports", ports));
		}
	}
	return json_pack("{s:s, s:o, s:o}", "schema", MESH_SCHEMA, "hosts", hosts, "pairs", pairs);
}

static void half_rate(unsigned from, unsigned to, struct measured *pair)
{
	if (from == 3 || to == 3)
		pair->alone_bps /= 2;
	pair->together_bps = pair->alone_bps * 0.95;
}

static void one_direction(unsigned from, unsigned to, struct measured *pair)
{
	if (to == 7)
		pair->alone_bps *= 0.6;
	pair->together_bps = pair->alone_bps * 0.95;
}

static void one_path(unsigned from, unsigned to, struct measured *pair)
{
	if (from == 2 && to == 6)
		pair->alone_bps *= 0.5;
	pair->together_bps = pair->alone_bps * 0.95;
}

static void dropping_host(unsigned from, unsigned to, struct measured *pair)
{
	if (from == 4)
		pair->loss = 0.01;
}

static void dropping_path(unsigned from, unsigned to, struct measured *pair)
{
	if (from == 2 && to == 6) {
		pair->loss = 0.0005;
		pair->path_loss = 0.004;
	}
}

static void oversubscribed(unsigned from, unsigned to, struct measured *pair)
{
	pair->together_bps = pair->alone_bps * 0.5;
}

static void saturated_host(unsigned from, unsigned to, struct measured *pair)
{
	if (from == 8)
		pair->together_bps = pair->alone_bps * 0.4;
}

static void far_host(unsigned from, unsigned to, struct measured *pair)
{
	if (from == 1 || to == 1)
		pair->latency_us = 80;
}

static void mesh_run(plant *fault, struct diagnosis *out)
{
	struct cluster cluster = { 0 };
	json_t *root = mesh_json(fault);

	assert_int_equal(mesh_read(&cluster.mesh, &cluster.scratch, "mesh.json", root), 0);
	cluster.meshed = true;
	json_decref(root);
	run(&cluster, out);
}

static void test_mesh(void **state)
{
	static const struct {
		plant *fault;
		const char *check;
		const char *object;
		const char *words;
		enum severity severity;
	} rows[] = {
		{ half_rate, "mesh-host", "node3", "sends 49.8", SEVERITY_ERROR },
		{ one_direction, "mesh-asymmetry", "node7", "receives 59.8", SEVERITY_ERROR },
		{ one_path, "mesh-link", "node2 -> node6", "where both ends reach",
		  SEVERITY_WARNING },
		{ dropping_host, "mesh-loss", "node4", "loses 1 % of what it sends",
		  SEVERITY_ERROR },
		{ dropping_path, "mesh-loss", "node2 -> node6",
		  "0.05 % lost on 1 of 8 paths (source port 50003: 0.4 %)", SEVERITY_WARNING },
		{ oversubscribed, "mesh-saturated", "the fabric", "keeps 50 %", SEVERITY_WARNING },
		{ saturated_host, "mesh-saturated", "node8", "40 %", SEVERITY_WARNING },
		{ far_host, "mesh-latency", "node1", "80 us", SEVERITY_WARNING },
	};
	struct diagnosis diagnosis;

	mesh_run(NULL, &diagnosis);
	if (diagnosis.finding_count)
		print_findings(&diagnosis);
	assert_int_equal(diagnosis.finding_count, 0);
	assert_non_null(strstr(diagnosis.conclusion, "56 pairs of hosts are alike"));
	diagnosis_free(&diagnosis);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		mesh_run(rows[i].fault, &diagnosis);
		if (diagnosis.finding_count != 1 ||
		    strcmp(diagnosis.findings[0].check, rows[i].check) != 0 ||
		    strcmp(diagnosis.findings[0].object, rows[i].object) != 0 ||
		    !strstr(diagnosis.findings[0].value, rows[i].words) ||
		    diagnosis.findings[0].severity != rows[i].severity) {
			print_findings(&diagnosis);
			fail_msg("%s of %s expected: %s", rows[i].check, rows[i].object,
				 rows[i].words);
		}
		diagnosis_free(&diagnosis);
	}
}

/* Results that are not of the schema are refused; what was not measured is not judged. */
static void test_mesh_schema(void **state)
{
	static const struct {
		const char *text;
		int rc;
	} rows[] = {
		{ "{}", -EINVAL },
		{ "{\"schema\": \"godwit-mesh/2\", \"hosts\": [{\"name\": \"a\"}], \"pairs\": []}",
		  -EINVAL },
		{ "{\"schema\": \"godwit-mesh/1\", \"hosts\": [], \"pairs\": []}", -EINVAL },
		{ "{\"schema\": \"godwit-mesh/1\", \"hosts\": [{\"name\": 7}], \"pairs\": []}",
		  -EINVAL },
		{ "{\"schema\": \"godwit-mesh/1\", \"hosts\": [{\"name\": \"a\"}], \"pairs\": [{\"from\": \"a\", \"to\": \"b\"}]}",
		  -EINVAL },
		{ "{\"schema\": \"godwit-mesh/1\", \"hosts\": [{\"name\": \"a\"}], \"pairs\": [{\"from\": \"a\", \"to\": \"a\"}]}",
		  -EINVAL },
		{ "{\"schema\": \"godwit-mesh/1\", \"hosts\": [{\"name\": \"a\"}]}", 0 },
		{ "{\"schema\": \"godwit-mesh/1\", \"hosts\": [{\"name\": \"a\"}, {\"name\": \"b\"}], \"pairs\": [{\"from\": \"a\", \"to\": \"b\", \"loss\": -3, \"alone_bps\": \"fast\", \"ports\": [{}, 3, {\"source_port\": 70000}]}]}",
		  0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cluster cluster = { 0 };
		struct diagnosis diagnosis;
		json_t *root = json_loads(rows[i].text, 0, NULL);

		assert_non_null(root);
		assert_int_equal(mesh_read(&cluster.mesh, &cluster.scratch, "x", root), rows[i].rc);
		cluster.meshed = rows[i].rc == 0;
		json_decref(root);
		run(&cluster, &diagnosis);
		assert_int_equal(diagnosis.finding_count, 0);
		diagnosis_free(&diagnosis);
	}
}

static void one_not_measured(unsigned from, unsigned to, struct measured *pair)
{
	if (from == 6)
		pair->alone_bps = pair->together_bps = pair->loss = pair->latency_us = -1;
}

static void test_mesh_gaps(void **state)
{
	struct diagnosis diagnosis;

	mesh_run(one_not_measured, &diagnosis);
	if (diagnosis.finding_count)
		print_findings(&diagnosis);
	assert_int_equal(diagnosis.finding_count, 0);
	diagnosis_free(&diagnosis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alike),	    cmocka_unit_test(test_outliers),
		cmocka_unit_test(test_merge),	    cmocka_unit_test(test_mesh),
		cmocka_unit_test(test_mesh_schema), cmocka_unit_test(test_mesh_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
