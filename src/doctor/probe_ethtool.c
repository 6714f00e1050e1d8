/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `ethtool`, `ethtool -S`, `-a`, `-g` and `-i` show. A driver's own counters have no netlink form, so that the ioctl()
 * serves for all four; each is allowed to every user.
 */
#include "probe.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATS_MAX 65536u

static int ethtool(int fd, const char *interface, void *command)
{
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	request.ifr_data = command;
	return ioctl(fd, SIOCETHTOOL, &request) == 0 ? 0 : -errno;
}

static int driver(int fd, const char *interface, struct builder *out)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	int rc = ethtool(fd, interface, &info);

	if (rc == 0)
		builder_print(out, "driver %.31s\nversion %.31s\nfirmware %.31s\nbus %.31s\n",
			      info.driver, info.version, info.fw_version, info.bus_info);
	return rc;
}

static int pause_settings(int fd, const char *interface, struct builder *out)
{
	struct ethtool_pauseparam pause = { .cmd = ETHTOOL_GPAUSEPARAM };
	int rc = ethtool(fd, interface, &pause);

	if (rc == 0)
		builder_print(out, "autoneg %u\nrx %u\ntx %u\n", pause.autoneg, pause.rx_pause,
			      pause.tx_pause);
	return rc;
}

static int ring(int fd, const char *interface, struct builder *out)
{
	struct ethtool_ringparam sizes = { .cmd = ETHTOOL_GRINGPARAM };
	int rc = ethtool(fd, interface, &sizes);

	if (rc == 0)
		builder_print(out, "rx %u\nrx_max %u\ntx %u\ntx_max %u\n", sizes.rx_pending,
			      sizes.rx_max_pending, sizes.tx_pending, sizes.tx_max_pending);
	return rc;
}

/* Asks how many counters there are. Returns the number, or -errno. */
static int count_stats(int fd, const char *interface)
{
	/* The number follows the header. */
	_Alignas(struct ethtool_sset_info) char
		bytes[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)] = { 0 };
	struct ethtool_sset_info *info = (struct ethtool_sset_info *)bytes;
	uint32_t count;
	int rc;

	info->cmd = ETHTOOL_GSSET_INFO;
	info->sset_mask = 1u << ETH_SS_STATS;
	rc = ethtool(fd, interface, info);
	if (rc)
		return rc;
	memcpy(&count, bytes + sizeof(*info), sizeof(count));
	if (info->sset_mask == 0 || count == 0)
		return -EOPNOTSUPP;
	return count > STATS_MAX ? -EOVERFLOW : (int)count;
}

static int stats(int fd, const char *interface, struct builder *out)
{
	int count = count_stats(fd, interface), rc;
	struct ethtool_gstrings *names;
	struct ethtool_stats *values;

	if (count < 0)
		return count;
	names = calloc(1, sizeof(*names) + (size_t)count * ETH_GSTRING_LEN);
	values = calloc(1, sizeof(*values) + (size_t)count * sizeof(uint64_t));
	if (!names || !values) {
		free(names);
		free(values);
		return -ENOMEM;
	}
	*names = (struct ethtool_gstrings){ .cmd = ETHTOOL_GSTRINGS,
					    .string_set = ETH_SS_STATS,
					    .len = (uint32_t)count };
	*values = (struct ethtool_stats){ .cmd = ETHTOOL_GSTATS, .n_stats = (uint32_t)count };
	rc = ethtool(fd, interface, names);
	if (rc == 0)
		rc = ethtool(fd, interface, values);
	for (int i = 0; rc == 0 && i < count; i++) {
		const char *name = (const char *)names->data + (size_t)i * ETH_GSTRING_LEN;

		builder_print(out, "%.*s %llu\n", ETH_GSTRING_LEN, name + strspn(name, " "),
			      (unsigned long long)values->data[i]);
	}
	free(names);
	free(values);
	return rc;
}

int probe_ethtool(const char *rest, long pid, struct builder *out)
{
	static const struct {
		const char *name;
		int (*ask)(int fd, const char *interface, struct builder *out);
	} kinds[] = { { "driver", driver },
		      { "pause", pause_settings },
		      { "ring", ring },
		      { "stats", stats } };
	const char *slash = strchr(rest, '/');
	char interface[IF_NAMESIZE];
	int fd, rc = -ENOENT;

	if (!slash || (size_t)(slash - rest) >= sizeof(interface))
		return -ENOENT;
	memcpy(interface, rest, (size_t)(slash - rest));
	interface[slash - rest] = '\0';
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(slash + 1, kinds[i].name) == 0)
			rc = kinds[i].ask(fd, interface, out);
	}
	close(fd);
	return rc;
}
