/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr.h: the programming interface published with SDR-RDMA, over Godwit.
 *
 * Names, fields, order of arguments and values are as published; a program written to them compiles unchanged. What the
 * words mean here, and where that differs from the published library, is in docs/sdr.md.
 *
 *  - Calls return an enum sdr_errcode unless they make an object, and then NULL on failure. SDR_ERROR and NULL come with
 *    one line on stderr that says why. SDR_RETRY: not now; try the same again.
 *  - Every call may be made from any thread. A thread of the library's own keeps data moving, also while nobody calls.
 *  - Nothing is repaired: what the network lost stays a zero in the bitmap until it is sent again.
 */
#ifndef SDR_H
#define SDR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SDR_API
#define SDR_API __attribute__((visibility("default")))
#endif

struct sdr_context;
struct sdr_qp;
struct sdr_send_handle;
struct sdr_recv_handle;

enum sdr_errcode { SDR_SUCCESS = 0, SDR_ERROR = 1, SDR_RETRY = 2 };

enum sdr_mtu {
	SDR_MTU_64,
	SDR_MTU_128,
	SDR_MTU_256,
	SDR_MTU_512,
	SDR_MTU_1024,
	SDR_MTU_2048,
	SDR_MTU_4096,
};

enum sdr_wr_opcode { SDR_WR_WRITE, SDR_WR_WRITE_WITH_IMM };

/* ---- contexts ------------------------------------------------------------------------------------------------- */

struct sdr_dev_attr {
	uint32_t num_channels; /* paths that data to one peer is spread over; at most 8 are used */
	uint32_t log_max_qps;
};

/*
 * Opens a device. $SDR_FABRIC, a fabric string of Godwit's such as "roce:eth0", goes before `dev_name`, which is an
 * RDMA device ("mlx5_0"), a network interface, an address of this host, or a fabric string. NULL or "": whatever is
 * here.
 */
SDR_API struct sdr_context *sdr_context_create(const char *dev_name, struct sdr_dev_attr *dev_attr);

/* Also destroys what is left in it. */
SDR_API int sdr_context_destroy(struct sdr_context *ctx);

/* ---- queue pairs ---------------------------------------------------------------------------------------------- */

struct sdr_qp_attr {
	uint32_t
		bitmap_chunk_size_log_bytes; /* what a byte of the bitmap stands for: 1 to 64 mtu */
	size_t max_in_flight_log_bytes; /* all messages together: a message has at most this less max_log_num_msgs */
	uint32_t max_log_num_msgs; /* sends, and receives, open at once; 10 at most */
	enum sdr_mtu mtu; /* largest packet; smaller ones are used where the path carries less */
	uint8_t send_enable;
	uint8_t recv_enable;
	uint32_t rate_limit; /* kbit/s of data; 0: none */
};

SDR_API struct sdr_qp *sdr_qp_create(struct sdr_context *ctx, struct sdr_qp_attr *qp_attr);

/* Tells the peer. Handles of its requests are gone. */
SDR_API int sdr_qp_destroy(struct sdr_qp *qp);

/* What the peer must know, as bytes to be carried there by any means. */
SDR_API int sdr_qp_info_size_get(struct sdr_qp *qp, size_t *size);
SDR_API int sdr_qp_info_get(struct sdr_qp *qp, void *info);

/* Local: nothing is sent. The two ends must agree on the chunk size. */
SDR_API int sdr_qp_connect(struct sdr_qp *qp, void *remote_info);

/* ---- receiving ------------------------------------------------------------------------------------------------ */

struct sdr_recv_wr {
	uint32_t max_length;
	uint32_t lkey;
	uint64_t address;
};

/* Posts a buffer; the peer's i-th send lands in the i-th. SDR_RETRY: all 2^max_log_num_msgs are open. */
SDR_API int sdr_recv_post(struct sdr_qp *qp, struct sdr_recv_wr *wr,
			  struct sdr_recv_handle **handle);

/* The immediate. SDR_RETRY until it is known, SDR_ERROR when the message has none or the peer is gone. */
SDR_API int sdr_recv_imm_get(struct sdr_recv_handle *handle, uint32_t *imm);

/*
 * The bitmap, a byte a chunk: it becomes 1 when the whole chunk has arrived, without a call. Valid until the receive is
 * completed. A last, short chunk counts when the length is known; past the message's end bytes stay 0. SDR_ERROR when the
 * peer is gone: whoever waits for bytes to change should ask now and then.
 */
SDR_API int sdr_recv_bitmap_get(struct sdr_recv_handle *handle, uint8_t **bitmap,
				size_t *length_bytes);

/* One chunk in pieces of attr.mtu bytes, lowest bit first. SDR_ERROR past the buffer. */
SDR_API int sdr_recv_bitmap_chunk_expand(struct sdr_recv_handle *handle, uint32_t chunk_offset,
					 uint64_t *chunk_bitmap);

/* Ends the receive, whole or not, and the handle. When it returns nothing can land there any more. */
SDR_API int sdr_recv_complete(struct sdr_recv_handle *handle);

/* ---- sending -------------------------------------------------------------------------------------------------- */

struct sdr_send_wr {
	enum sdr_wr_opcode opcode;
	uint32_t imm_value;
	uint32_t length;
	uint32_t lkey;
	uint64_t local_addr;
	uint64_t remote_offset; /* where in the receive, in chunks */
};

struct sdr_send_start_wr {
	enum sdr_wr_opcode opcode;
	uint32_t imm_value;
};

struct sdr_send_continue_wr {
	uint32_t length;
	uint64_t local_addr;
	uint32_t lkey;
	uint64_t remote_offset; /* in chunks */
};

struct sdr_send_status {
	uint32_t flags; /* unused */
};

/* One-shot: each packet once. SDR_RETRY: all 2^max_log_num_msgs are open. */
SDR_API int sdr_send_post(struct sdr_qp *qp, struct sdr_send_wr *wr,
			  struct sdr_send_handle **handle);

/* Streaming: any chunks, in any order, any number of times. */
SDR_API int sdr_streaming_send_start(struct sdr_qp *qp, struct sdr_send_start_wr *wr,
				     struct sdr_send_handle **handle);

/*
 * SDR_RETRY: the receive is not known here yet, or too much waits to be sent. The length is a multiple of the packet's
 * unless it reaches the end of the receive. SDR_ERROR also when the receiver has completed.
 */
SDR_API int sdr_streaming_send_continue(struct sdr_send_handle *handle,
					struct sdr_send_continue_wr *wr);
SDR_API int sdr_streaming_send_end(struct sdr_send_handle *handle);

/* Whether the memory may be used again. When `completed` was set to 1 the handle is gone; SDR_ERROR then says that the
 * message did not leave as a whole. `status` may be NULL. */
SDR_API int sdr_send_poll(struct sdr_send_handle *handle, int *completed,
			  struct sdr_send_status *status);

#ifdef __cplusplus
}
#endif
#endif
