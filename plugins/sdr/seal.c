/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal.c: sealed packets. The interface has no rendezvous of its own: programs carry descriptions to each other as they like.
 * So the keys of a queue pair follow from a secret that both ends have in a file and from both descriptions, which hold
 * random numbers of both ends. They are set when the peer's description is there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <godwit/rendezvous.h>

#include "state.h"

static void copy_keys(const struct gw_rendezvous_keys *keys, struct gw_seal *out)
{
	memcpy(out->tx, keys->tx, sizeof(out->tx));
	memcpy(out->rx, keys->rx, sizeof(out->rx));
}

int seal_open(struct sdr_context *ctx)
{
	const char *file = getenv("GODWIT_SECRET_FILE");
	struct gw_rendezvous_keys keys;
	int error;

	if (!file || !file[0])
		return 0;
	/* A file that cannot be used is told now, not when a peer is there. */
	error = gw_rendezvous_secret_keys(file, "a", 1, "b", 1, &keys);
	explicit_bzero(&keys, sizeof(keys));
	if (error) {
		complain("sdr_context_create: GODWIT_SECRET_FILE: %s", gw_rendezvous_error());
		return error;
	}
	ctx->secret_file = strdup(file);
	return ctx->secret_file ? 0 : -ENOMEM;
}

int seal_placeholder(struct gw_seal *out)
{
	return getrandom(out, sizeof(*out), 0) == sizeof(*out) ? 0 : -errno;
}

int seal_connect(struct sdr_qp *qp, const uint8_t peer[INFO_BYTES])
{
	struct gw_rendezvous_keys keys;
	struct gw_seal seal;
	int error;

	error = gw_rendezvous_secret_keys(qp->ctx->secret_file, qp->info, INFO_BYTES, peer,
					  INFO_BYTES, &keys);
	if (error)
		return complain("sdr_qp_connect: %s", gw_rendezvous_error());
	copy_keys(&keys, &seal);
	error = gw_qp_seal(qp->gw, &seal);
	explicit_bzero(&keys, sizeof(keys));
	explicit_bzero(&seal, sizeof(seal));
	return error ? complain_gw("sdr_qp_connect", error) : SDR_SUCCESS;
}
