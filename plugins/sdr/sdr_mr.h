/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr_mr.h: memory that data is sent from or lands in.
 *
 * Names, order of arguments and values are those published with SDR-RDMA.
 */
#ifndef SDR_MR_H
#define SDR_MR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SDR_API
#define SDR_API __attribute__((visibility("default")))
#endif

struct sdr_context;
struct sdr_mr;

enum sdr_access_flags { SDR_ACCESS_REMOTE_WRITE = 0 };

/* Registers memory with a context. Returns NULL on failure, with the reason on stderr. */
SDR_API struct sdr_mr *sdr_mr_reg(struct sdr_context *ctx, void *addr, size_t length,
				  enum sdr_access_flags flags);

/* Deregisters memory. Returns SDR_ERROR while a request still uses it. */
SDR_API int sdr_mr_dereg(struct sdr_mr *mr);

/* Sets *lkey to the key by which requests refer to the memory. */
SDR_API int sdr_mr_lkey_get(struct sdr_mr *mr, uint32_t *lkey);

/* Sets *rkey to the same number. No peer needs it: sends match receives in order, and the fabric creates a key for each. */
SDR_API int sdr_mr_rkey_get(struct sdr_mr *mr, uint32_t *rkey);

#ifdef __cplusplus
}
#endif
#endif
