/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys without a rendezvous: from the secret and the descriptions that two ends exchanged. Each description has random numbers
 * of its end in it, so that keys are new for both ends whatever somebody in between made of the other description.
 */
#include <errno.h>
#include <string.h>

#include <godwit/rendezvous.h>

#include "derive.h"
#include "error.h"

static int derive_both(const struct secret *secret, struct text mine, struct text theirs,
		       struct gw_rendezvous_keys *out)
{
	struct gw_rendezvous_keys keys = { .tx = { 0 } };
	int rc = derive_key(secret, mine, theirs, keys.tx);

	if (rc == 0)
		rc = derive_key(secret, theirs, mine, keys.rx);
	if (rc == 0)
		*out = keys;
	explicit_bzero(&keys, sizeof(keys));
	if (rc == -ENOTSUP)
		return error_set(
			rc,
			"a secret needs OpenSSL, and this Godwit was built without: build it again with libssl-dev installed");
	return rc ? error_set(rc, "OpenSSL cannot derive keys from the secret") : 0;
}

int gw_rendezvous_secret_keys(const char *secret_file, const void *mine, size_t mine_length,
			      const void *theirs, size_t theirs_length,
			      struct gw_rendezvous_keys *out)
{
	struct secret secret;
	int rc;

	if (!secret_file || !mine || !theirs || !mine_length || !theirs_length || !out)
		return error_set(-EINVAL, "no secret file, no description, or no place for keys");
	/* Both directions would have one key, and packets that came back would be taken. */
	if (mine_length == theirs_length && memcmp(mine, theirs, mine_length) == 0)
		return error_set(-EINVAL, "the other end's description is this end's own");
	rc = secret_read(secret_file, &secret);
	if (rc)
		return rc;
	rc = derive_both(&secret, (struct text){ mine, mine_length },
			 (struct text){ theirs, theirs_length }, out);
	secret_wipe(&secret);
	return rc;
}
