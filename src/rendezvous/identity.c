/* SPDX-License-Identifier: BSD-3-Clause */
/* What an end says about itself, taken from the attributes and checked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/zero.h"
#include "connection.h"

#define TIMEOUT_DEFAULT_NS UINT64_C(10000000000)

static int copy_service(const char *from, char out[FRAME_SERVICE])
{
	size_t length = strlen(from);

	if (length > GW_RENDEZVOUS_SERVICE_MAX)
		return error_set(-EINVAL, "the service's name is longer than %d characters",
				 GW_RENDEZVOUS_SERVICE_MAX);
	for (size_t i = 0; i < length; i++) {
		if (from[i] < 0x20 || from[i] > 0x7e)
			return error_set(-EINVAL, "the service's name is not printable");
	}
	memcpy(out, from, length + 1);
	return 0;
}

int identity_read(const struct gw_rendezvous_attr *attr, struct identity *out)
{
	const char *service;
	int rc;

	if (!attr)
		return error_set(-EINVAL, "no attributes");
	if (!array_is_zero(attr->reserved) || attr->reserved16 ||
	    attr->flags & ~GW_RENDEZVOUS_ANY_PORT)
		return error_set(-EINVAL, "a reserved attribute is not zero");
	if (attr->interrupt_fd < 0)
		return error_set(-EINVAL, "interrupt_fd is negative");
	service = attr->service ? attr->service : "";
	*out = (struct identity){
		.service_version = attr->service_version,
		.timeout_ns = attr->timeout_ns ? attr->timeout_ns : TIMEOUT_DEFAULT_NS,
		.silence_ns = attr->silence_ns,
		.interrupt_fd = attr->interrupt_fd,
	};
	rc = copy_service(service, out->service);
	return rc ? rc
		  : copy_service(attr->peer_service ? attr->peer_service : service,
				 out->peer_service);
}

const char *identity_peer(const struct identity *identity, char *out)
{
	if (identity->peer_service[0])
		snprintf(out, FRAME_SERVICE + 16, "`%s`", identity->peer_service);
	else
		snprintf(out, FRAME_SERVICE + 16, "the other end");
	return out;
}
