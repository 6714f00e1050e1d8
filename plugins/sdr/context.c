/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c: creates a Godwit context for a device, with a service thread, and destroys both; who may use it. */
#include <assert.h>
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
	struct gw_service_attr service = { .context = &attr, .name = "sdr" };
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
	error = gw_service_open(&service, &ctx->service);
	if (error == -EAGAIN)
		complain("sdr_context_create: cannot start the service thread: %s",
			 strerror(-error));
	else if (error)
		complain(
			"sdr_context_create: cannot open the fabric: %s; $SDR_FABRIC names another",
			gw_context_error(NULL));
	return error;
}

void service_enter(struct sdr_context *ctx)
{
	int error = gw_service_enter(ctx->service, 0);

	/* Neither a child of fork() nor a callback calls. */
	assert(!error);
}

void service_leave(struct sdr_context *ctx, bool push)
{
	if (push)
		gw_progress(ctx->gw);
	gw_service_leave(ctx->service, 0);
}

struct sdr_context *sdr_context_create(const char *dev_name, struct sdr_dev_attr *dev_attr)
{
	struct sdr_context *ctx;

	if (!dev_attr || dev_attr->log_max_qps > LOG_MAX_QPS) {
		complain("sdr_context_create: %s",
			 dev_attr ? "log_max_qps is over 14" : "no attributes");
		return NULL;
	}
	environment_ignored();
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return NULL;
	if (seal_open(ctx) || open_fabric(ctx, dev_name, dev_attr)) {
		free(ctx->secret_file);
		free(ctx);
		return NULL;
	}
	ctx->gw = gw_service_context(ctx->service, 0);
	return ctx;
}

int sdr_context_destroy(struct sdr_context *ctx)
{
	if (!ctx)
		return complain("sdr_context_destroy: no context");
	service_enter(ctx);
	for (struct sdr_qp *qp = ctx->qps; qp; qp = qp->next) {
		qp_unlimit(qp);
		gw_qp_close(qp->gw);
	}
	service_leave(ctx, false);
	gw_service_close(ctx->service);
	while (ctx->qps) {
		struct sdr_qp *qp = ctx->qps;

		ctx->qps = qp->next;
		qp_free(qp);
	}
	mr_free_all(ctx);
	free(ctx->secret_file);
	free(ctx);
	return SDR_SUCCESS;
}
