/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of the channels between ranks. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <godwit/rendezvous.h>

#include "collective/seal.h"

/* What the keys depend on, as one text for each end. */
struct text {
	uint64_t comm;
	uint32_t track;
	uint32_t from;
	uint32_t to;
	uint32_t zero;
	uint8_t info[sizeof(struct gw_channel_info)];
	uint8_t nonce[SEAL_NONCE_BYTES];
};

static int draw(void *out, size_t bytes)
{
	ssize_t drawn = getrandom(out, bytes, 0);

	return drawn == (ssize_t)bytes ? 0 : drawn < 0 ? -errno : -EIO;
}

int seal_draw(uint8_t nonce[SEAL_NONCE_BYTES])
{
	return draw(nonce, SEAL_NONCE_BYTES);
}

int seal_placeholder(struct gw_seal *out)
{
	return draw(out, sizeof(*out));
}

static struct text text_of(const struct seal_end *end)
{
	struct text text = { .comm = htobe64(end->comm),
			     .track = htobe32(end->track),
			     .from = htobe32(end->from),
			     .to = htobe32(end->to) };

	memcpy(text.info, end->info->bytes, sizeof(text.info));
	memcpy(text.nonce, end->nonce, sizeof(text.nonce));
	return text;
}

int seal_keys(const char *secret_file, const struct seal_end *mine, const struct seal_end *theirs,
	      struct gw_seal *out)
{
	struct text own = text_of(mine), other = text_of(theirs);
	struct gw_rendezvous_keys keys;
	int error = gw_rendezvous_secret_keys(secret_file, &own, sizeof(own), &other, sizeof(other),
					      &keys);

	if (error)
		return error;
	memcpy(out->tx, keys.tx, sizeof(out->tx));
	memcpy(out->rx, keys.rx, sizeof(out->rx));
	explicit_bzero(&keys, sizeof(keys));
	return 0;
}
