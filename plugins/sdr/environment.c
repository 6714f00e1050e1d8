/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * environment.c: names of devices, environment variables $SDR_..., and error messages. The published calls return one of
 * three codes, so that a line on stderr is the only way to give a reason.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

/* Settings of the published library that have no effect here. */
static const struct {
	const char *name;
	const char *why;
} ignored[] = {
	{ "SDR_QP_NUM_GENERATIONS", "each receive has a key of its own" },
	{ "SDR_SEND_CTX_SWR_BATCH_SIZE", "batches are as large as the fabric takes" },
	{ "SDR_DPA_TX_OFFLOADING_ENABLE", "nothing runs on a NIC's own cores" },
	{ "SDR_DPA_TX_NUM_WORKERS", "nothing runs on a NIC's own cores" },
	{ "SDR_RECV_CTX_ROOT_MKEY_ENTRIES_FACTOR", "there is no table of keys" },
	{ "SDR_RECV_CTX_N_ROOT_MKEYS", "there is no table of keys" },
	{ "SDR_USE_UC_QP", "packets are always unreliable" },
	{ "SDR_NO_RC_RNR_RETRY", "packets are always unreliable" },
};

int complain(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "godwit-sdr: %s\n", line);
	return SDR_ERROR;
}

int complain_gw(const char *call, int error)
{
	switch (error) {
	case -ENOTCONN:
		return complain("%s: the queue pair is not connected", call);
	case -EISCONN:
		return complain("%s: the queue pair was connected before", call);
	case -EFAULT:
		return complain("%s: the memory is not inside what its key names", call);
	case -EMSGSIZE:
		return complain("%s: more packets than a message can have", call);
	case -ECONNRESET:
	case -ETIMEDOUT:
		return complain("%s: the peer is gone", call);
	default:
		return complain("%s: %s", call, strerror(-error));
	}
}

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* True if the name begins with that of an RDMA device, as in "mlx5_0/1@3". */
static bool is_rdma_device(const char *name)
{
	char path[FABRIC_NAME + 32];
	int length = (int)strcspn(name, "/@,");

	if (!length)
		return false;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s", length, name);
	return !access(path, F_OK);
}

int environment_fabric(const char *dev_name, char out[FABRIC_NAME])
{
	const char *asked = getenv("SDR_FABRIC");
	const char *kind = "";
	int length;

	if (!asked || !asked[0])
		asked = dev_name && dev_name[0] ? dev_name : "auto";
	if (strlen(asked) >= FABRIC_NAME)
		return -ENAMETOOLONG;
	if (strcmp(asked, "auto") != 0 && !starts_with(asked, "roce:") &&
	    !starts_with(asked, "verbs:"))
		kind = is_rdma_device(asked) ? "verbs:" : "roce:";
	length = snprintf(out, FABRIC_NAME, "%s%s", kind, asked);
	return length < FABRIC_NAME ? 0 : -ENAMETOOLONG;
}

int environment_faults(struct gw_faults *out)
{
	const char *drop = getenv("SDR_DROP");
	const char *seed = getenv("SDR_SEED");
	struct gw_faults faults = { 0 };
	char *end;

	if (!drop || !drop[0])
		return 0;
	faults.drop = strtod(drop, &end);
	if (*end || !(faults.drop >= 0 && faults.drop < 1)) {
		complain("SDR_DROP=%s is not a share of packets, from 0 to below 1", drop);
		return -EINVAL;
	}
	faults.seed = seed ? strtoull(seed, NULL, 0) : 0;
	*out = faults;
	return 1;
}

void environment_ignored(void)
{
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		if (getenv(ignored[i].name))
			complain("%s has no effect here: %s", ignored[i].name, ignored[i].why);
}
