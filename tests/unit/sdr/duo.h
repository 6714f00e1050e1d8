/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * duo.h: two contexts of libgodwit-sdr on loopback and a connected queue pair between them, for tests.
 *
 * Both have service threads, so things happen by themselves; a test waits for them with duo_until(), which fails it
 * after DUO_PATIENCE_S.
 */
#ifndef TESTS_UNIT_SDR_DUO_H
#define TESTS_UNIT_SDR_DUO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sdr.h"
#include "sdr_mr.h"

#define DUO_MEMORY     (1u << 22)
#define DUO_PATIENCE_S 20
#define DUO_INFO       256
#define DUO_DEVICE     "roce:127.0.0.1@0"

/* Chunks of 4096 bytes, packets of 512, eight messages of at most 1 MiB. */
#define DUO_CHUNK 4096u
#define DUO_MTU	  512u
extern const struct sdr_qp_attr duo_qp_attr;

struct duo {
	struct sdr_context *ctx[2];
	struct sdr_qp *qp[2];
	struct sdr_mr *mr[2];
	uint32_t key[2];
	uint8_t *memory[2]; /* DUO_MEMORY bytes each */
};

/* Of queue pairs with these attributes, or duo_qp_attr when null. */
void duo_open(struct duo *duo, const struct sdr_qp_attr *attr);
/* One end of it, not connected, and its description. */
void duo_open_end(struct duo *duo, int end, const struct sdr_qp_attr *attr, uint8_t info[DUO_INFO]);
void duo_close(struct duo *duo);

/* End 0 sends from its memory, end 1 receives into its own. */
struct sdr_recv_handle *duo_recv(struct duo *duo, uint32_t offset, uint32_t length);
struct sdr_send_handle *duo_send(struct duo *duo, uint32_t offset, uint32_t length,
				 uint32_t remote_chunks);
void duo_sent(struct sdr_send_handle *send);

/* Reads a byte of the bitmap as its writer means it to be read. */
bool duo_chunk(const uint8_t *bitmap, size_t chunk);
size_t duo_chunks(const uint8_t *bitmap, size_t chunks);

double duo_now(void);
void duo_nap(void);

#define duo_until(condition)                                                                       \
	do {                                                                                       \
		double limit_ = duo_now() + DUO_PATIENCE_S;                                        \
		while (!(condition)) {                                                             \
			if (duo_now() > limit_)                                                    \
				fail_msg("%s:%d: not in time: %s", __FILE__, __LINE__,             \
					 #condition);                                              \
			duo_nap();                                                                 \
		}                                                                                  \
	} while (0)

#endif
