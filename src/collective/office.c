/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters between ranks. Each begins with a header of 24 bytes in the byte order of the network:
 *
 *	u64 communicator | u32 kind | u32 detail | u32 sender's rank in the communicator | u32 0
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/comm.h"

/* Letters kept for communicators that do not exist here yet. A rank that splits has sent a few at most before others follow. */
#define EARLY_MAX 65536

struct header {
	uint64_t comm;
	uint32_t kind;
	uint32_t detail;
	uint32_t sender;
	uint32_t reserved;
};

struct early {
	struct list node;
	uint32_t from;
	uint32_t length;
	uint8_t data[];
};

void office_init(struct office *office, struct gw_context *ctx)
{
	*office = (struct office){ .ctx = ctx, .wake_fd = -1 };
	list_init(&office->comms);
	list_init(&office->early);
}

void office_free(struct office *office)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &office->early)
		free(container_of(node, struct early, node));
	list_init(&office->early);
	free(office->secret_file);
}

/* Writes a letter of the communicator `id`. Returns its length, or -EMSGSIZE. */
static int compose(uint64_t id, uint32_t rank, enum letter kind, uint32_t detail, const void *data,
		   size_t length, uint8_t letter[MAIL_MAX])
{
	struct header header = { .comm = htobe64(id),
				 .kind = htobe32(kind),
				 .detail = htobe32(detail),
				 .sender = htobe32(rank) };

	if (length > MAIL_MAX - sizeof(header))
		return -EMSGSIZE;
	memcpy(letter, &header, sizeof(header));
	if (length)
		memcpy(letter + sizeof(header), data, length);
	return (int)(length + sizeof(header));
}

void office_refuse(struct office *office, uint32_t rank, int status, const char *why)
{
	uint8_t letter[MAIL_MAX];
	int length = compose(COMM_FIRST, rank, LETTER_FAILED, (uint32_t)-status, why,
			     strnlen(why, SENTENCE_MAX - 1), letter);

	office->mail->ops->send(office->mail, MAIL_ALL, letter, (size_t)length);
}

int office_write(struct gw_comm *comm, uint32_t to, enum letter kind, uint32_t detail,
		 const void *data, size_t data_length)
{
	struct mail *mail = comm->office->mail;
	uint8_t letter[MAIL_MAX];
	int composed = compose(comm->id, comm->rank, kind, detail, data, data_length, letter);
	size_t length = (size_t)composed;
	int error = 0, first = 0;

	if (composed < 0)
		return composed;
	if (to != MAIL_ALL)
		return mail->ops->send(mail, comm_office_rank(comm, to), letter, length);
	if (!comm->members)
		return mail->ops->send(mail, MAIL_ALL, letter, length);
	for (uint32_t r = 0; r < comm->size; r++) {
		if (r != comm->rank)
			error = mail->ops->send(mail, comm->members[r], letter, length);
		if (error && !first)
			first = error;
	}
	return first;
}

static void failed(struct gw_comm *comm, uint32_t detail, const uint8_t *text, size_t length)
{
	int status = detail && detail < 4096 ? -(int)detail : -EPROTO;

	comm_fail(comm, false, status, "%.*s", (int)length, (const char *)text);
}

static void deliver(struct gw_comm *comm, const struct header *header, uint32_t from,
		    const uint8_t *data, size_t length)
{
	uint32_t sender = be32toh(header->sender), detail = be32toh(header->detail);
	struct link_letter theirs;

	/* The mail says who wrote, in ranks of the office. */
	if (sender >= comm->size || comm_office_rank(comm, sender) != from || sender == comm->rank)
		return;
	switch (be32toh(header->kind)) {
	case LETTER_CONNECT:
		if (detail >= comm->track_count || length != sizeof(theirs) || comm->status)
			return;
		memcpy(&theirs, data, sizeof(theirs));
		link_described(comm, detail, sender, &theirs);
		break;
	case LETTER_FAILED:
		failed(comm, detail, data, length);
		break;
	case LETTER_CLOSED:
		comm->left[sender] = true;
		break;
	case LETTER_OPENED:
		comm->opened++;
		break;
	case LETTER_ASK:
		office_write(comm, sender, LETTER_ANSWER, detail, NULL, 0);
		break;
	case LETTER_ANSWER:
		if (detail < comm->track_count)
			link_answered(comm, detail, sender);
		break;
	default:
		break;
	}
}

static struct gw_comm *comm_with(const struct office *office, uint64_t id)
{
	struct list *node;

	list_for_each (node, &office->comms) {
		struct gw_comm *comm = container_of(node, struct gw_comm, node);

		if (comm->id == id)
			return comm;
	}
	return NULL;
}

static void keep(struct office *office, uint32_t from, const void *data, size_t length)
{
	struct early *early;

	if (office->early_count >= EARLY_MAX)
		return;
	early = malloc(sizeof(*early) + length);
	if (!early)
		return;
	early->from = from;
	early->length = (uint32_t)length;
	memcpy(early->data, data, length);
	list_add_tail(&office->early, &early->node);
	office->early_count++;
}

static void letter(void *arg, uint32_t from, const void *data, size_t length)
{
	struct office *office = arg;
	struct header header;
	struct gw_comm *comm;

	if (length < sizeof(header))
		return;
	memcpy(&header, data, sizeof(header));
	comm = comm_with(office, be64toh(header.comm));
	if (comm)
		deliver(comm, &header, from, (const uint8_t *)data + sizeof(header),
			length - sizeof(header));
	else if (be32toh(header.kind) <= LETTER_FAILED)
		keep(office, from, data, length);
}

void office_adopt(struct gw_comm *comm)
{
	struct office *office = comm->office;
	struct list *node, *next;

	list_for_each_safe (node, next, &office->early) {
		struct early *early = container_of(node, struct early, node);
		struct header header;

		memcpy(&header, early->data, sizeof(header));
		if (be64toh(header.comm) != comm->id)
			continue;
		list_del(&early->node);
		office->early_count--;
		deliver(comm, &header, early->from, early->data + sizeof(header),
			early->length - sizeof(header));
		free(early);
	}
}

/* Rank of the communicator that has this rank in the office; size if none has. */
static uint32_t member_of(const struct gw_comm *comm, uint32_t rank)
{
	if (!comm->members)
		return rank < comm->size ? rank : comm->size;
	for (uint32_t r = 0; r < comm->size; r++)
		if (comm->members[r] == rank)
			return r;
	return comm->size;
}

/* A rank has no mail any more. Rank 0 relays that of all: without it nobody would learn of what happens to others. */
static void miss(struct office *office, uint32_t rank, bool dead, const char *what)
{
	struct list *node;

	list_for_each (node, &office->comms) {
		struct gw_comm *comm = container_of(node, struct gw_comm, node);
		uint32_t member = member_of(comm, rank);
		char name[80] = "rank 0 of all ranks, which relays their mail,";

		/* Whoever leaves while this rank closes is not needed any more. Who dies may be: it will not come to the closing barrier. */
		if ((comm->closing && !dead) || (member == comm->size && rank != 0))
			continue;
		if (member < comm->size)
			comm_rank_name(comm, member, name, sizeof(name));
		comm_fail(comm, false, -ECONNRESET, "%s %s", name, what);
	}
}

static void lost(void *arg, uint32_t rank, const char *why)
{
	char what[SENTENCE_MAX];

	snprintf(what, sizeof(what), "is lost: %s", why);
	miss(arg, rank, true, what);
}

static void left(void *arg, uint32_t rank)
{
	miss(arg, rank, false, "has closed its communicator");
}

const struct mail_handler office_mail = { .letter = letter, .lost = lost, .left = left };
