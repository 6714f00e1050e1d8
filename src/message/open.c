/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's front door: a context by the name of its fabric, the version, and the log. */
#include <errno.h>

#include "base/log.h"
#include "fabric/open.h"
#include "fabric/refuse.h"
#include "message/context.h"

const char *gw_version(void)
{
	return GODWIT_VERSION;
}

static gw_log_fn *user_log;

static void to_user(void *arg, enum log_level level, const char *message)
{
	user_log(arg, (enum gw_log_level)level, message);
}

void gw_log_set(enum gw_log_level level, gw_log_fn *fn, void *arg)
{
	_Static_assert((int)GW_LOG_ERROR == (int)LOG_LEVEL_ERROR &&
			       (int)GW_LOG_DEBUG == (int)LOG_LEVEL_DEBUG,
		       "the public levels are the log's own");
	user_log = fn;
	log_set((enum log_level)level, fn ? to_user : NULL, arg);
}

int gw_context_open(const struct gw_context_attr *attr, struct gw_context **out)
{
	struct fabric_options options = { 0 };
	struct fabric_faults faults;
	struct fabric *fabric;
	int error;

	if (!attr || !out || !attr->fabric)
		return open_refuse(LOG_LEVEL_INFO, -EINVAL, "the attributes name no fabric");
	if (attr->flags & ~(uint32_t)(GW_CONTEXT_SKIP_ICRC | GW_CONTEXT_NO_DEPARTURES))
		return open_refuse(LOG_LEVEL_INFO, -EINVAL, "flags 0x%x: an unknown one is set",
				   attr->flags);
	if (attr->faults)
		faults = (struct fabric_faults){ attr->faults->drop, attr->faults->duplicate,
						 attr->faults->reorder, attr->faults->seed };
	options.faults = attr->faults ? &faults : NULL;
	options.lanes = attr->lanes;
	options.traffic_class = attr->traffic_class;
	options.skip_icrc = attr->flags & GW_CONTEXT_SKIP_ICRC;
	options.no_departures = attr->flags & GW_CONTEXT_NO_DEPARTURES;
	error = fabric_open(attr->fabric, &options, &fabric);
	if (error)
		return error;
	return context_open_on(fabric, attr, out);
}
