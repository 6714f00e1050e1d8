/* SPDX-License-Identifier: BSD-3-Clause */
/* The matrix: every device of the caller, both address families, UC and UD, three packet sizes; and user space. */
#include "case.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#define PAYLOADS 3
static const uint32_t payloads[PAYLOADS] = { 256, 1024, 0 };

const char *qualify_kind_name(uint8_t kind)
{
	static const char *const names[QUALIFY_KINDS] = { "user", "uc", "ud" };

	return names[kind];
}

static int gid_of(const struct qualify_device *device, uint8_t family)
{
	return family == 4 ? device->gid_ipv4 : device->gid_ipv6;
}

struct list {
	struct qualify_case *cases;
	unsigned count;
};

static void add(struct list *list, uint8_t own, uint8_t peer, uint8_t family, unsigned device)
{
	for (int i = 0; i < PAYLOADS && list->count < QUALIFY_CASES_MAX; i++)
		list->cases[list->count++] = (struct qualify_case){
			.kind = { own, peer },
			.family = family,
			.device = (uint8_t)device,
			.payload = payloads[i],
		};
}

bool qualify_case_users(const struct qualify_case *what)
{
	return what->kind[QUALIFY_CALLER] == QUALIFY_USER &&
	       what->kind[QUALIFY_WAITER] == QUALIFY_USER;
}

unsigned qualify_cases(const struct qualify_means *own, unsigned peer_devices, int peer_ipv4,
		       int peer_ipv6, struct qualify_case out[QUALIFY_CASES_MAX])
{
	struct list list = { out, 0 };
	uint8_t user_family = strchr(own->address, ':') ? 6 : 4;

	for (unsigned i = 0; i < own->count; i++) {
		for (uint8_t family = 4; family <= 6; family += 2) {
			if (gid_of(&own->devices[i], family) < 0 ||
			    !(family == 4 ? peer_ipv4 : peer_ipv6))
				continue;
			add(&list, QUALIFY_UC, QUALIFY_UC, family, i);
			add(&list, QUALIFY_UD, QUALIFY_UD, family, i);
		}
		/* User space takes port 4791, which a host's own device would hold. */
		if (!peer_devices && gid_of(&own->devices[i], user_family) >= 0) {
			add(&list, QUALIFY_UC, QUALIFY_USER, user_family, i);
			add(&list, QUALIFY_UD, QUALIFY_USER, user_family, i);
		}
	}
	if (!own->count && (user_family == 4 ? peer_ipv4 : peer_ipv6)) {
		add(&list, QUALIFY_USER, QUALIFY_UC, user_family, 0);
		add(&list, QUALIFY_USER, QUALIFY_UD, user_family, 0);
	}
	add(&list, QUALIFY_USER, QUALIFY_USER, user_family, 0);
	for (unsigned i = 0; i < list.count; i++)
		out[i].sealed = own->seal && qualify_case_users(&out[i]);
	return list.count;
}

void qualify_case_encode(const struct qualify_case *what, uint8_t out[QUALIFY_CASE_BYTES])
{
	out[0] = what->kind[0];
	out[1] = what->kind[1];
	out[2] = what->family;
	out[3] = what->device;
	put_be32(out + 4, what->payload);
	out[8] = what->sealed;
}

int qualify_case_decode(const uint8_t *in, size_t length, struct qualify_case *out)
{
	if (length != QUALIFY_CASE_BYTES || in[0] >= QUALIFY_KINDS || in[1] >= QUALIFY_KINDS ||
	    (in[2] != 4 && in[2] != 6) || get_be32(in + 4) > 65536 || in[8] > 1)
		return -EPROTO;
	*out = (struct qualify_case){ { in[0], in[1] }, in[2], in[3], in[8], get_be32(in + 4) };
	return in[8] && !qualify_case_users(out) ? -EPROTO : 0;
}

static const struct qualify_device *device_of(const struct qualify_case *what,
					      const struct qualify_means *own, int end)
{
	if (end == QUALIFY_CALLER)
		return what->device < own->count ? &own->devices[what->device] : NULL;
	for (unsigned i = 0; i < own->count; i++)
		if (gid_of(&own->devices[i], what->family) >= 0)
			return &own->devices[i];
	return NULL;
}

int qualify_case_fabric(const struct qualify_case *what, const struct qualify_means *own, int end,
			char out[QUALIFY_FABRIC])
{
	const struct qualify_device *device;

	if (what->kind[end] == QUALIFY_USER) {
		/* Towards a device the port is RoCE's own; between two sockets any will do. */
		if (what->kind[!end] == QUALIFY_USER)
			snprintf(out, QUALIFY_FABRIC, "roce:%s@%u", own->address, own->udp_port);
		else
			snprintf(out, QUALIFY_FABRIC, "roce:%s", own->address);
		return 0;
	}
	device = device_of(what, own, end);
	if (!device || gid_of(device, what->family) < 0)
		return -ENODEV;
	snprintf(out, QUALIFY_FABRIC, "verbs:%s/%u@%d%s", device->name, device->port,
		 gid_of(device, what->family), what->kind[end] == QUALIFY_UD ? ",ud" : "");
	return 0;
}

const char *qualify_case_label(const struct qualify_case *what, const struct qualify_means *own,
			       char out[QUALIFY_LABEL])
{
	char size[32] = "largest packets";
	const char *device = what->device < own->count ? own->devices[what->device].name : "";

	if (what->kind[QUALIFY_CALLER] == QUALIFY_USER)
		device = "";
	if (what->payload)
		snprintf(size, sizeof(size), "%u bytes", what->payload);
	snprintf(out, QUALIFY_LABEL, "%s%s%s to %s, IPv%u, %s%s",
		 qualify_kind_name(what->kind[QUALIFY_CALLER]), device[0] ? " " : "", device,
		 qualify_kind_name(what->kind[QUALIFY_WAITER]), what->family, size,
		 what->sealed ? ", sealed" : "");
	return out;
}
