/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c: creates a Godwit context for a device, with a service thread, and destroys both. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* Most lanes that a fabric has. */
#define CHANNELS_MAX 8
#define LOG_MAX_QPS  14
#define REQUESTS     65536
/* Address space for bitmaps; pages are touched as they are used. */
#define BITMAP_BYTES (UINT64_C(64) << 20)

static int open_fabric(struct sdr_context *ctx, const char *dev_name,
		       const struct sdr_dev_attr *dev_attr)
{
	struct gw_context_attr attr = { .max_qps = 1u << dev_attr->log_max_qps,
					.max_sends = REQUESTS,
					.max_recvs = REQUESTS,
					.bitmap_bytes = BITMAP_BYTES };
	char fabric[FABRIC_NAME];
	struct gw_faults faults;
	int error = environment_fabric(dev_name, fabric);

	if (error) {
		complain("sdr_context_create: the name of the device or $SDR_FABRIC is too long");
		return error;
	}
	attr.fabric = fabric;
	attr.lanes = dev_attr->num_channels < CHANNELS_MAX ? dev_attr->num_channels : CHANNELS_MAX;
	error = environment_faults(&faults);
	if (error < 0)
		return error;
	if (error)
		attr.faults = &faults;
	error = gw_context_open(&attr, &ctx->gw);
	if (error)
		complain(
			"sdr_context_create: cannot open the fabric: %s; $SDR_FABRIC names another",
			gw_context_error(NULL));
	return error;
}

struct sdr_context *sdr_context_create(const char *dev_name, struct sdr_dev_attr *dev_attr)
{
	struct sdr_context *ctx;
	int error;

	if (!dev_attr || dev_attr->log_max_qps > LOG_MAX_QPS) {
		complain("sdr_context_create: %s",
			 dev_attr ? "log_max_qps is over 14" : "no attributes");
		return NULL;
	}
	environment_ignored();
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return NULL;
	if (open_fabric(ctx, dev_name, dev_attr))
		goto free_context;
	pthread_mutex_init(&ctx->lock, NULL);
	error = service_start(ctx);
	if (error) {
		complain("sdr_context_create: cannot start the service thread: %s",
			 strerror(-error));
		goto close_fabric;
	}
	return ctx;

close_fabric:
	pthread_mutex_destroy(&ctx->lock);
	gw_context_close(ctx->gw);
free_context:
	free(ctx);
	return NULL;
}

int sdr_context_destroy(struct sdr_context *ctx)
{
	if (!ctx)
		return complain("sdr_context_destroy: no context");
	service_stop(ctx);
	for (struct sdr_qp *qp = ctx->qps; qp; qp = qp->next)
		qp_unlimit(qp);
	gw_context_close(ctx->gw);
	while (ctx->qps) {
		struct sdr_qp *qp = ctx->qps;

		ctx->qps = qp->next;
		qp_free(qp);
	}
	mr_free_all(ctx);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
	return SDR_SUCCESS;
}
