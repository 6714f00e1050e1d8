/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages: the payload of UD SEND ONLY packets between two ends. A datagram holds one or
 * several of them, all fields big-endian. Every message opens with the same 28 bytes:
 *
 *	 0  u8 version (2) | u8 type | u16 length of the whole message
 *	 4  u32 token          names the connection; a stranger does not know it
 *	 8  u32 announced, u32 granted, u32 completed, u32 results
 *	                       cumulative: any later message makes up for a lost one
 *	24  u16 size           bits 0 to 14: payload, in units of 4 bytes, of the largest data packets
 *	                       that this end knows to reach its peer; bit 15: it looks for no larger
 *	26  u8 epoch           times that this end found its path to carry smaller packets than before
 *	27  u8 epoch_applied   the peer's epoch that this end's grants follow
 *
 * and goes on with the body of its type, at offset 28:
 *
 *	ANNOUNCE  u32 first_msn | u16 count >= 1 | u16 reserved | count entries of 24 bytes:
 *	          u64 length | u32 imm | u8 flags (bit 0: has_imm) | u8 scheme |
 *	          u16 reserved | u32 geometry[2]
 *	GRANT     u32 first_msn | u16 count >= 1 | u16 reserved | count entries of 32 bytes:
 *	          u16 slot | u16 generation | u32 rkey | u64 address | u64 capacity | u32 tag |
 *	          u32 payload of a full packet
 *	REPORT    u32 landed, duplicate, late, ce, overrun |
 *	          u32 echo_msn, echo_packet, hold_ns | u32 runs_msn |
 *	          u8 lanes | u8 results | u16 runs | lanes x { u32 landed, ce } |
 *	          results x { u32 msn, status, missing } | runs x { u32 first, count } |
 *	          u32 holes, u32 hole_packets | u32 clock_us    (may be missing: an older release)
 *	NACK      u32 msn | u32 round | u32 below | u16 runs | u16 flags |
 *	          runs x { u32 first, count }
 *	CREDIT    u32 window_packets | u32 reserved
 *	PROBE     u8 kind | 3 reserved | u32 id | u64 time_ns | u32 hold_ns | u32 msn
 *	CLOSE     u16 reason | u16 text_length <= 128 | text
 *	SIZE      u8 kind | u8 lane | u16 reserved | u32 payload | u32 msn | padding
 *	DATA      u32 msn | u32 packet | u16 length | u16 reserved | bytes
 *	SCHEME    u32 msn | u8 side | u8 scheme | u16 payload_length | payload
 *
 * Bytes after a known body are ignored: a later release may add fields there. Reserved fields and
 * unknown flag bits are ignored too.
 *
 * Runs are ascending and disjoint, none is empty, and each ends at 2^32 - 1 or below (at a NACK's
 * `below` or below). So first + count, and the sum of all counts, fit in 32 bits. Message numbers
 * (msn) are serial numbers that wrap: entry i is about message first_msn + i modulo 2^32.
 *
 * Pure functions, nothing allocated: a decoded message points into its datagram.
 */
#ifndef WIRE_CONTROL_H
#define WIRE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_VERSION	    2
#define CONTROL_HEADER_SIZE 28
/* Each list's entry on the wire. */
#define CONTROL_ANNOUNCE_ENTRY_SIZE 24
#define CONTROL_GRANT_ENTRY_SIZE    32
#define CONTROL_LANE_SIZE	    8
#define CONTROL_RESULT_SIZE	    12
#define CONTROL_RUN_SIZE	    8
#define CONTROL_HOLES_SIZE	    8
#define CONTROL_CLOCK_SIZE	    4
/* Each type's body without its lists. */
#define CONTROL_ANNOUNCE_SIZE 8
#define CONTROL_GRANT_SIZE    8
#define CONTROL_REPORT_SIZE   40
#define CONTROL_NACK_SIZE     16
#define CONTROL_CREDIT_SIZE   8
#define CONTROL_PROBE_SIZE    24
#define CONTROL_CLOSE_SIZE    4
#define CONTROL_SCHEME_SIZE   8
#define CONTROL_SIZE_SIZE     12
#define CONTROL_DATA_SIZE     12

#define CONTROL_TEXT_MAX 128
/* As a report's hold_ns: it echoes no packet. */
#define CONTROL_NO_ECHO 0xffffffffu

enum control_type {
	CONTROL_ANNOUNCE = 1,
	CONTROL_GRANT = 2,
	CONTROL_REPORT = 3,
	CONTROL_NACK = 4,
	CONTROL_CREDIT = 5,
	CONTROL_PROBE = 6,
	CONTROL_CLOSE = 7,
	CONTROL_SCHEME = 8,
	CONTROL_SIZE = 9,
	CONTROL_DATA = 10,
};

enum control_size_kind {
	/* Padded to the length of a full packet: does it arrive? */
	CONTROL_SIZE_PROBE = 0,
	/* A probe of this size arrived. */
	CONTROL_SIZE_ARRIVED = 1,
	/* Large packets arrive no longer. Grant the open receives from `msn` on once more, with packets of `payload`. */
	CONTROL_SIZE_CUT = 2,
};

enum control_probe_kind {
	CONTROL_PROBE_REQUEST = 0,
	CONTROL_PROBE_REPLY = 1,
};

/* Whom a SCHEME message is for, among the two ends of message msn. */
enum control_side {
	CONTROL_TO_RECEIVER = 0,
	CONTROL_TO_SENDER = 1,
};

struct control_header {
	/* set by the decoder; the encoder is told it apart */
	uint8_t type;
	/* set by the decoder; the encoder counts */
	uint16_t length;
	uint32_t token;
	uint32_t announced;
	uint32_t granted;
	uint32_t completed;
	uint32_t results;
	/* Payload, a multiple of 4, of the largest data packets known to reach the peer. */
	uint32_t size;
	/* No larger size is being tried. */
	bool settled;
	uint8_t epoch;
	uint8_t epoch_applied;
};

struct control_announce_entry {
	uint64_t length;
	uint32_t imm;
	bool has_imm;
	uint8_t scheme;
	uint32_t geometry[2];
};

struct control_grant_entry {
	uint16_t slot;
	uint16_t generation;
	uint32_t rkey;
	uint64_t address;
	uint64_t capacity;
	uint32_t tag;
	/* Bytes of data in a full packet of this message. */
	uint32_t payload;
};

struct control_lane {
	uint32_t landed;
	uint32_t ce;
};

struct control_result {
	uint32_t msn;
	uint32_t status;
	uint32_t missing;
};

/* Packets first to first + count - 1. */
struct control_run {
	uint32_t first;
	uint32_t count;
};

/* Announcements or grants: read the entries with the accessors. */
struct control_list {
	uint32_t first_msn;
	uint16_t count;
	const uint8_t *entries;
};

struct control_report {
	uint32_t landed;
	uint32_t duplicate;
	uint32_t late;
	uint32_t ce;
	uint32_t overrun;
	uint32_t echo_msn;
	uint32_t echo_packet;
	uint32_t hold_ns;
	/* the message that the runs are holes of */
	uint32_t runs_msn;
	/* Set by the decoder; the encoder counts. */
	uint8_t lane_count;
	uint8_t result_count;
	uint16_t run_count;
	const uint8_t *lanes;
	const uint8_t *results;
	const uint8_t *runs;
	/* Runs of packets that did not come in their turn, ever, and the packets in them. */
	bool has_holes;
	uint32_t holes;
	uint32_t hole_packets;
	/* The reporter's clock when it wrote this, in us; wraps. */
	bool has_clock;
	uint32_t clock_us;
};

/* Of message msn, every packet below `below` has landed, except those in the runs. */
struct control_nack {
	uint32_t msn;
	uint32_t round;
	uint32_t below;
	uint16_t flags;
	/* Set by the decoder; the encoder counts. */
	uint16_t run_count;
	const uint8_t *runs;
};

struct control_credit {
	uint32_t window_packets;
};

struct control_probe {
	uint8_t kind;
	uint32_t id;
	/* time on the asker's clock, echoed */
	uint64_t time_ns;
	/* time that the answerer held it */
	uint32_t hold_ns;
	uint32_t msn;
};

/* The text is the peer's: any bytes at all, not terminated. */
struct control_close {
	uint16_t reason;
	uint16_t text_length;
	const uint8_t *text;
};

struct control_scheme {
	uint32_t msn;
	uint8_t side;
	uint8_t scheme;
	uint16_t payload_length;
	const uint8_t *payload;
};

/* How large packets may be; see enum control_size_kind. */
struct control_size {
	uint8_t kind;
	/* The lane that a probe took. */
	uint8_t lane;
	uint32_t payload;
	/* Of a cut: the first message that still waits for its grant. */
	uint32_t msn;
};

/* A packet of a message so small that it travels with its announcement. */
struct control_data {
	uint32_t msn;
	uint32_t packet;
	uint16_t length;
	const uint8_t *bytes;
};

struct control_message {
	struct control_header header;
	union {
		struct control_list announce;
		struct control_list grant;
		struct control_report report;
		struct control_nack nack;
		struct control_credit credit;
		struct control_probe probe;
		struct control_close close;
		struct control_scheme scheme;
		struct control_size size;
		struct control_data data;
	};
};

/*
 * Takes a control message apart, and checks all of it: the accessors cannot fail afterwards. `out` then
 * holds its header and the body of its type.
 *
 * -EMSGSIZE:        shorter than the header or its type's body, or not the length it names.
 * -EPROTONOSUPPORT: another version.
 * -ENOMSG:          an unknown type: to be counted and ignored, for it may be newer than this end.
 * -EBADMSG:         a body that contradicts itself: a list longer than the message, an empty list
 * of entries, runs out of order, an unknown probe kind or side, too long a text.
 */
int control_decode(const void *message_bytes, size_t length, struct control_message *out);

/* A datagram holds one message or several, back to back. The length of the first; -EPROTONOSUPPORT: of another
 * version, -EMSGSIZE: it names more bytes than there are, or fewer than its header. */
int control_first(const void *datagram, size_t length);

/* Whether the headers of two messages of a datagram, whose lengths control_first() gave, say the same: all but type and length. */
bool control_same_header(const void *message, const void *other);

/* `index` is below the respective count; the message is of the type named. */
struct control_announce_entry control_announce_at(const struct control_message *message,
						  unsigned index);
struct control_grant_entry control_grant_at(const struct control_message *message, unsigned index);
struct control_lane control_lane_at(const struct control_message *message, unsigned index);
struct control_result control_result_at(const struct control_message *message, unsigned index);
/* Of a report or of a NACK. */
struct control_run control_run_at(const struct control_message *message, unsigned index);

/*
 * Writing: control_begin(), then the body of that type, then its list entries while they fit, then
 * control_end(). Each put returns -ENOSPC, and changes nothing, when the datagram (or an 8-bit
 * count) is full; what was put before is then a whole message that control_end() finishes.
 */
struct control_writer {
	uint8_t *buf;
	size_t size;
	size_t used;
};

int control_begin(struct control_writer *w, void *buf, size_t size, enum control_type type,
		  const struct control_header *header);
/* The same with the header of another message, which is complete. */
int control_begin_like(struct control_writer *w, void *buf, size_t size, enum control_type type,
		       const void *message);

int control_put_announce(struct control_writer *w, uint32_t first_msn);
int control_put_announce_entry(struct control_writer *w,
			       const struct control_announce_entry *entry);
int control_put_grant(struct control_writer *w, uint32_t first_msn);
int control_put_grant_entry(struct control_writer *w, const struct control_grant_entry *entry);
/* A report's lists follow in this order: lanes, results, runs; and behind them the holes. */
int control_put_report(struct control_writer *w, const struct control_report *report);
int control_put_lane(struct control_writer *w, const struct control_lane *lane);
int control_put_result(struct control_writer *w, const struct control_result *result);
int control_put_holes(struct control_writer *w, uint32_t holes, uint32_t hole_packets);
/* Comes after the holes. */
int control_put_clock(struct control_writer *w, uint32_t clock_us);
int control_put_nack(struct control_writer *w, const struct control_nack *nack);
/* To a report or a NACK. -EINVAL: a run that the decoder would refuse (see above). */
int control_put_run(struct control_writer *w, const struct control_run *run);
int control_put_credit(struct control_writer *w, const struct control_credit *credit);
int control_put_probe(struct control_writer *w, const struct control_probe *probe);
/* Text beyond CONTROL_TEXT_MAX is cut: a close must not fail for its eloquence. */
int control_put_close(struct control_writer *w, const struct control_close *close);
int control_put_scheme(struct control_writer *w, const struct control_scheme *scheme);
int control_put_data(struct control_writer *w, const struct control_data *data);
/* Bytes of zero up to `length` in all, as far as there is room. */
int control_put_size(struct control_writer *w, const struct control_size *size, size_t length);

/*
 * Fills in the length and returns it. Returns 0 for an announcement or a grant without entries:
 * there is nothing to send.
 */
size_t control_end(struct control_writer *w);

#endif
