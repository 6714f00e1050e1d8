/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h: a UDP source port of this rank, which is a context of its own, and one channel from it to another rank.
 *
 * The receiving end of a channel keeps RECEIVES receives posted and does not look at their contents. What a message means
 * is in its length: a note has fewer than 16 bytes, data has thousands. So both ends can use a channel for one
 * measurement after the other without agreeing on sizes.
 */
#ifndef TOOLS_MESH_PORT_H
#define TOOLS_MESH_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/channel.h>
#include <godwit/collective.h>

#define PORT_RECEIVES 64
/* Sends that are open at once, at most. */
#define PORT_SENDS    64
#define PORT_DATA_MAX (UINT64_C(1) << 20)

enum note {
	NOTE_PING,
	NOTE_PONG,
	/* packets count from here on */
	NOTE_MARK,
	/* the other end's turn to send */
	NOTE_TURN,
	/* this end has done everything */
	NOTE_BYE,
	NOTES,
};

struct port {
	struct gw_context *ctx;
	uint8_t *memory;
	struct gw_mr *mr;
	char address[64];
	/* UDP port, or 0 where a NIC chooses it */
	uint16_t number;
	/* the ranks' communicator, which needs progress during a measurement too: other ranks may still wait for what it
	 * has to repeat */
	struct gw_comm *comm;
};

/* Data packets of a context since it was opened. */
struct port_counts {
	uint64_t sent, retransmitted;
	uint64_t received;
	/* packets that this host received and had no room for */
	uint64_t overrun;
};

struct link;

/* A receive and its place in the port's memory. */
struct receive {
	struct link *link;
	unsigned place;
};

/* One end of a channel. */
struct link {
	struct port *port;
	struct gw_channel *channel;
	/* 0, or why the channel failed */
	int status;
	/* notes that the other end sent */
	unsigned notes[NOTES];
	/* counts when the other end's NOTE_MARK arrived */
	struct port_counts marked;
	/* data that has arrived, in bytes, and when the last of it did */
	uint64_t sent_bytes;
	uint64_t sent_ns;
	/* sends of data and notes of this end that have not arrived */
	unsigned open;
	unsigned notes_open;
	struct receive receives[PORT_RECEIVES];
};

/* Opens a context on a fabric and finds its address. Returns 0 or -errno. */
int port_open(struct port *port, const char *fabric, struct gw_comm *comm);
void port_close(struct port *port);
/* Makes progress, sleeping for at most a millisecond and not beyond `until_ns`. */
void port_progress(struct port *port, uint64_t until_ns);
void port_read(const struct port *port, struct port_counts *out);

/* The numeric address and port that a context receives at, as its queue pairs describe it. */
int port_address(struct gw_context *ctx, char address[64], uint16_t *number);

/* Creates this end of a channel. */
int link_open(struct link *link, struct port *port, struct gw_channel_info *out);
int link_connect(struct link *link, const struct gw_channel_info *peer);
void link_close(struct link *link);

int link_note(struct link *link, enum note note);
/* Sends `length` bytes of data. */
int link_send(struct link *link, uint64_t length);

#endif
