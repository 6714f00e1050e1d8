/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr.h: the programming interface published with SDR-RDMA, over Godwit.
 *
 * Names, fields, order of arguments and values are as published, so that a program written for the published library
 * compiles unchanged. docs/sdr.md lists the differences in behaviour.
 *
 *  - Calls that create an object return NULL on failure; others return an enum sdr_errcode. With NULL and SDR_ERROR one
 *    line on stderr gives the reason. SDR_RETRY: try the same call again later.
 *  - Every call may be made from any thread. A thread of the library sends and receives also while no call is made.
 *  - Nothing is retransmitted: a lost packet stays a zero in the bitmap until the program sends it again.
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
	/* lanes that data to one peer is spread over; at most 8 are used */
	uint32_t num_channels;
	/* logarithm of the most queue pairs */
	uint32_t log_max_qps;
};

/*
 * Opens a device. `dev_name` is an RDMA device ("mlx5_0"), a network interface, an address of this host, or a fabric string
 * of Godwit such as "roce:eth0"; NULL or "" chooses one. The environment variable $SDR_FABRIC overrides it. With a secret in
 * the file $GODWIT_SECRET_FILE packets are sealed, which NICs cannot do; the peer needs the same.
 */
SDR_API struct sdr_context *sdr_context_create(const char *dev_name, struct sdr_dev_attr *dev_attr);

/* Destroys the context and everything in it. */
SDR_API int sdr_context_destroy(struct sdr_context *ctx);

/* ---- queue pairs ---------------------------------------------------------------------------------------------- */

struct sdr_qp_attr {
	/* logarithm of the bytes in a chunk, for which the bitmap has one byte: 6 to 31 */
	uint32_t bitmap_chunk_size_log_bytes;
	/* logarithm of the bytes in all open messages, and so in the longest one; the sum is not checked */
	size_t max_in_flight_log_bytes;
	/* logarithm of the most open sends, and of the most open receives; at most 16 */
	uint32_t max_log_num_msgs;
	/* largest packet; smaller ones are used if the path carries less or a chunk is smaller */
	enum sdr_mtu mtu;
	uint8_t send_enable;
	uint8_t recv_enable;
	/* kbit/s of data; 0: no limit */
	uint32_t rate_limit;
};

SDR_API struct sdr_qp *sdr_qp_create(struct sdr_context *ctx, struct sdr_qp_attr *qp_attr);

/* Closes the queue pair, tells the peer, and frees the handles of all its requests. */
SDR_API int sdr_qp_destroy(struct sdr_qp *qp);

/* Return the description that the peer needs to connect. The program carries it to the peer. */
SDR_API int sdr_qp_info_size_get(struct sdr_qp *qp, size_t *size);
SDR_API int sdr_qp_info_get(struct sdr_qp *qp, void *info);

/* Connects to a peer by its description. Sends nothing. Both ends must have the same chunk size. */
SDR_API int sdr_qp_connect(struct sdr_qp *qp, void *remote_info);

/* ---- receiving ------------------------------------------------------------------------------------------------ */

struct sdr_recv_wr {
	uint32_t max_length;
	uint32_t lkey;
	uint64_t address;
};

/* Posts a buffer. The peer's i-th send lands in the i-th buffer. SDR_RETRY: 2^max_log_num_msgs receives are open. */
SDR_API int sdr_recv_post(struct sdr_qp *qp, struct sdr_recv_wr *wr,
			  struct sdr_recv_handle **handle);

/* Sets *imm to the message's immediate. SDR_RETRY until it is known; SDR_ERROR if there is none, or if the peer is gone. */
SDR_API int sdr_recv_imm_get(struct sdr_recv_handle *handle, uint32_t *imm);

/*
 * Sets *bitmap to one byte for each chunk, which becomes 1 when the chunk is complete, without a further call. It is valid
 * until the receive is completed. A short last chunk becomes 1 when the length is known; bytes beyond the end of the message
 * stay 0. Returns SDR_ERROR if the peer is gone, so a program that waits for bytes should call it from time to time.
 */
SDR_API int sdr_recv_bitmap_get(struct sdr_recv_handle *handle, uint8_t **bitmap,
				size_t *length_bytes);

/* Sets one bit for each mtu bytes of the chunk that landed, lowest bit first. SDR_ERROR beyond the buffer, or if a chunk has
 * more than 64 times the mtu. */
SDR_API int sdr_recv_bitmap_chunk_expand(struct sdr_recv_handle *handle, uint32_t chunk_offset,
					 uint64_t *chunk_bitmap);

/* Ends the receive, complete or not, and frees the handle. After it returned nothing is written to the buffer any more. */
SDR_API int sdr_recv_complete(struct sdr_recv_handle *handle);

/* ---- sending -------------------------------------------------------------------------------------------------- */

struct sdr_send_wr {
	enum sdr_wr_opcode opcode;
	uint32_t imm_value;
	uint32_t length;
	uint32_t lkey;
	uint64_t local_addr;
	/* offset in the receive, in chunks */
	uint64_t remote_offset;
};

struct sdr_send_start_wr {
	enum sdr_wr_opcode opcode;
	uint32_t imm_value;
};

struct sdr_send_continue_wr {
	uint32_t length;
	uint64_t local_addr;
	uint32_t lkey;
	/* offset in the receive, in chunks */
	uint64_t remote_offset;
};

struct sdr_send_status {
	/* unused, always 0 */
	uint32_t flags;
};

/* Sends a message, each packet once. SDR_RETRY: 2^max_log_num_msgs sends are open. */
SDR_API int sdr_send_post(struct sdr_qp *qp, struct sdr_send_wr *wr,
			  struct sdr_send_handle **handle);

/* Starts a streaming send, which may put any chunks in any order any number of times. */
SDR_API int sdr_streaming_send_start(struct sdr_qp *qp, struct sdr_send_start_wr *wr,
				     struct sdr_send_handle **handle);

/*
 * Puts data into the message. The length is a multiple of the packet size unless it reaches the end of the receive.
 * SDR_RETRY: the receive is not known yet, or too much waits to be sent. SDR_ERROR also if the receiver has completed.
 */
SDR_API int sdr_streaming_send_continue(struct sdr_send_handle *handle,
					struct sdr_send_continue_wr *wr);

/* Ends a streaming send: no further data will be put. */
SDR_API int sdr_streaming_send_end(struct sdr_send_handle *handle);

/* Sets *completed to 1 when the memory may be used again, and frees the handle then; SDR_ERROR with it means that not all of
 * the message was sent. `status` may be NULL. */
SDR_API int sdr_send_poll(struct sdr_send_handle *handle, int *completed,
			  struct sdr_send_status *status);

#ifdef __cplusplus
}
#endif
#endif
