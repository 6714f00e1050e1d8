/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward.c: moves packets: reads them from a TUN, passes them through the sender's uplink, a path, and the downlinks of the
 * receivers, and writes them to the receivers' TUNs. Each link has a list of its packets (delay.h); a heap of links says
 * which link's next packet is due first.
 */
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/list.h"
#include "switch_state.h"

/* Segments of one super-packet that are due within this time, or the lab's slack, leave together, when the last one is due. */
#define BATCH_NS 50000

/* Packets read from one host before other hosts and due packets have their turn. */
#define READ_BATCH 16

/* Moves the link in the heap to the time at which its next packet leaves. */
static void arm(struct lab_switch *sw, struct lab_link *link)
{
	const struct piece *piece = delay_peek(&link->delay);

	if (!piece)
		heap_remove(&sw->due, &link->due);
	else if (!heap_contains(&link->due) || link->due.key != piece->at_ns)
		heap_update(&sw->due, &link->due, piece->at_ns);
}

/* Puts segment `index` on the link until at_ns. */
static void put(struct lab_switch *sw, struct lab_link *link, struct buffer *buffer, unsigned index,
		bool congested, uint64_t at_ns)
{
	struct piece *piece = store_piece(&sw->store, buffer, index);

	if (!piece) {
		sw->starved++;
		return;
	}
	piece->congested = congested;
	piece->at_ns = at_ns;
	if (delay_put(&link->delay, piece)) {
		store_drop(&sw->store, piece);
		sw->starved++;
	}
}

/* Passes segment `index` to the link model and puts it on the link as often as the model says. The caller holds a reference
 * to the buffer. */
static void enter(struct lab_switch *sw, struct lab_link *link, struct buffer *buffer,
		  unsigned index, bool congested, uint64_t now_ns)
{
	uint32_t bytes = packet_segment_bytes(&buffer->packet, index);
	uint32_t mtu = sw->config->links[link->host][link->direction].mtu;
	uint64_t busy_ns = link->model.busy_until_ns;
	struct link_verdict verdict;

	if (mtu && bytes > mtu) {
		link->oversize++;
		return;
	}
	verdict = link_enter(&link->model, now_ns, bytes);
	if (verdict.copies)
		lateness_add(&link->waiting, busy_ns > now_ns ? busy_ns - now_ns : 0, 1);
	if (verdict.ce && packet_is_ecn_capable(&buffer->packet)) {
		link->marked++;
		congested = true;
	}
	for (unsigned i = 0; i < verdict.copies; i++)
		put(sw, link, buffer, index, congested, verdict.at_ns[i]);
}

/* Passes a packet that left an uplink on to the downlinks of its receivers. Frees the piece. */
static void cross(struct lab_switch *sw, struct lab_link *up, struct piece *piece)
{
	struct buffer *buffer = piece->buffer;
	unsigned first = (unsigned)buffer->destination, last = first;
	uint32_t bytes = packet_segment_bytes(&buffer->packet, piece->index);

	up->bytes += bytes;
	if (sw->capture)
		capture_packet(sw->capture, piece->at_ns + sw->wall_offset_ns, &buffer->packet,
			       piece->index, piece->congested);
	if (buffer->destination == PACKET_TO_ALL) {
		first = 0;
		last = sw->config->hosts - 1;
	}
	if (!paths_pass(&sw->paths, buffer->path, piece->at_ns, bytes)) {
		store_drop(&sw->store, piece);
		return;
	}
	for (unsigned host = first; host <= last; host++) {
		struct lab_link *down = link_of(sw, host, LAB_DOWN);

		if (buffer->destination == PACKET_TO_ALL && host == up->host)
			continue;
		enter(sw, down, buffer, piece->index, piece->congested, piece->at_ns);
		arm(sw, down);
	}
	store_drop(&sw->store, piece);
}

/* Returns how many packets from the head on can leave as one super-packet, and sets *last to the last of them. */
static unsigned run_length(const struct lab_switch *sw, const struct lab_link *link,
			   const struct piece **last)
{
	uint64_t slack_ns = sw->config->slack_ns;
	uint64_t batch_ns = slack_ns > BATCH_NS ? slack_ns : BATCH_NS;
	const struct piece *head = delay_peek(&link->delay), *piece = head;
	unsigned count = 1;

	/* If packets overtake, the list alone does not give the order. */
	if (heap_count(&link->delay.early) == 0) {
		for (const struct piece *next = piece->next; next; next = piece->next) {
			if (next->buffer != head->buffer || next->index != piece->index + 1 ||
			    next->congested != head->congested ||
			    next->at_ns > head->at_ns + batch_ns)
				break;
			piece = next;
			count++;
		}
	}
	*last = piece;
	return count;
}

/* Writes `count` packets from the head on to the host's TUN, and frees them. */
static void leave(struct lab_switch *sw, struct lab_link *link, unsigned count, uint64_t due_ns)
{
	const struct piece *head = delay_peek(&link->delay);
	struct packet_run run;
	struct iovec parts[3];
	uint64_t now_ns;

	packet_build(&head->buffer->packet, head->index, count, head->congested, &run);
	parts[0] = (struct iovec){ &run.vnet, sizeof(run.vnet) };
	parts[1] = (struct iovec){ run.header, run.header_length };
	parts[2] = (struct iovec){ (void *)(uintptr_t)run.payload, run.payload_length };
	now_ns = clock_now_ns();
	if (writev(sw->polls[link->host].fd, parts, 3) < 0) {
		link->refused += count;
	} else {
		link->bytes += (uint64_t)run.payload_length + (uint64_t)count * run.header_length;
		lateness_add(&link->lateness, now_ns > due_ns ? now_ns - due_ns : 0, count);
	}
	while (count--)
		store_drop(&sw->store, delay_take(&link->delay));
}

void forward_due(struct lab_switch *sw, uint64_t now_ns)
{
	struct heap_node *node;

	while ((node = heap_min(&sw->due)) && node->key <= now_ns) {
		struct lab_link *link = container_of(node, struct lab_link, due);
		const struct piece *last;
		unsigned count;

		if (link->direction == LAB_UP) {
			cross(sw, link, delay_take(&link->delay));
			arm(sw, link);
			continue;
		}
		count = run_length(sw, link, &last);
		if (last->at_ns > now_ns) {
			heap_update(&sw->due, &link->due, last->at_ns);
			continue;
		}
		leave(sw, link, count, last->at_ns);
		arm(sw, link);
	}
}

/* Returns a buffer with the packet just read into sw->spare; NULL without memory. A plain packet is copied to a small buffer,
 * so that the large one can be used for the next read. */
static struct buffer *take_in(struct lab_switch *sw, const struct packet *packet)
{
	struct buffer *buffer = sw->spare, *other;

	if (packet->length <= sw->store.small_size) {
		other = store_buffer(&sw->store, packet->length);
		if (!other)
			return NULL;
		memcpy(other->data, buffer->data, packet->length);
		buffer = other;
	} else {
		other = store_buffer(&sw->store, PACKET_SIZE_MAX);
		if (!other)
			return NULL;
		sw->spare = other;
	}
	buffer->packet = *packet;
	buffer->packet.data = buffer->data;
	return buffer;
}

/* Puts a packet just read from a host on its uplink. */
static void arrive(struct lab_switch *sw, struct lab_link *up, const struct virtio_net_hdr *vnet,
		   uint32_t length)
{
	struct buffer *buffer;
	struct packet packet;
	uint64_t now_ns;
	int destination;

	if (packet_parse(vnet, sw->spare->data, length, &packet)) {
		sw->malformed++;
		return;
	}
	destination = packet_destination(&packet, sw->config->hosts);
	if (destination == PACKET_TO_NOBODY)
		sw->misaddressed++;
	if (destination < PACKET_TO_ALL)
		return;
	buffer = take_in(sw, &packet);
	if (!buffer) {
		sw->starved++;
		return;
	}
	buffer->destination = destination;
	buffer->path = paths_find(&sw->paths, up->host, &packet);
	/* Keep the buffer during the loop, since all of its packets may be lost. */
	buffer->references++;
	now_ns = clock_now_ns();
	for (unsigned i = 0; i < packet.segments; i++)
		enter(sw, up, buffer, i, false, now_ns);
	if (--buffer->references == 0)
		store_release(&sw->store, buffer);
	arm(sw, up);
}

void forward_read(struct lab_switch *sw, unsigned host)
{
	for (unsigned i = 0; i < READ_BATCH; i++) {
		struct virtio_net_hdr vnet;
		struct iovec parts[2] = { { &vnet, sizeof(vnet) },
					  { sw->spare->data, PACKET_SIZE_MAX } };
		ssize_t length = readv(sw->polls[host].fd, parts, 2);

		if (length <= (ssize_t)sizeof(vnet))
			return;
		arrive(sw, link_of(sw, host, LAB_UP), &vnet,
		       (uint32_t)((size_t)length - sizeof(vnet)));
	}
}
