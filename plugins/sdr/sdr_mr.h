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

/* Registers memory with a context. NULL on failure: a line on stderr says why. */
SDR_API struct sdr_mr *sdr_mr_reg(struct sdr_context *ctx, void *addr, size_t length,
				  enum sdr_access_flags flags);

/* SDR_ERROR while a request still uses the memory. */
SDR_API int sdr_mr_dereg(struct sdr_mr *mr);

/* The key that requests name the memory by. */
SDR_API int sdr_mr_lkey_get(struct sdr_mr *mr, uint32_t *lkey);

/* The same number. Nothing remote needs it: receives are matched in order, and the fabric makes a key for each. */
SDR_API int sdr_mr_rkey_get(struct sdr_mr *mr, uint32_t *rkey);

#ifdef __cplusplus
}
#endif
#endif
