/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends send each other. Both compute the same plan from the path MTU alone, so the
 * receiver knows every length, immediate and byte without being told, and agreeing by mistake is
 * impossible: the only thing between the two programs is the wire.
 *
 * Steps that carry a fault must leave no trace: no completion, no byte changed. Sound steps follow
 * every faulty one, and the last is sound, so a receiver that has seen the last has seen them all.
 */
#ifndef INTEROP_PLAN_H
#define INTEROP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Long enough for any plan. */
#define PLAN_MAX 96
/* Segments of the one UDP_SEGMENT send among the writes to the kernel; 64 KiB hold 15 of 4096. */
#define PLAN_BATCH 12

enum plan_direction {
	PLAN_TO_KERNEL = 0x51,
	PLAN_FROM_KERNEL = 0xa3,
};

enum plan_fault {
	FAULT_NONE,
	FAULT_ICRC, /* one bit of the ICRC flipped */
	FAULT_QPN,  /* a queue pair that does not exist */
	FAULT_KEY,  /* the wrong rkey of a write, the wrong Q_Key of a datagram */
};

struct plan_step {
	uint32_t length;
	uint32_t imm;
	size_t offset; /* of a write, in the receiver's memory */
	enum plan_fault fault;
	bool has_imm;
	bool congested; /* sent with the FECN bit, which the ICRC must not cover */
	bool batched;	/* part of the UDP_SEGMENT send */
};

/* Bytes of memory the writes of any plan with this path MTU need. */
size_t plan_memory_size(uint32_t path_mtu);

/* Fill `steps` (PLAN_MAX of them) and return how many. Faults, marks and batches only to the kernel. */
size_t plan_writes(enum plan_direction direction, uint32_t path_mtu, struct plan_step *steps);
size_t plan_datagrams(enum plan_direction direction, uint32_t path_mtu, struct plan_step *steps);

size_t plan_count_sound(const struct plan_step *steps, size_t count);

/* The bytes a step carries. No two steps carry the same. */
void plan_fill(const struct plan_step *step, uint8_t *out);
bool plan_matches(const struct plan_step *step, const uint8_t *data);

/* The receiver's memory before and after. */
void plan_memory_before(uint8_t *memory, size_t size);
void plan_memory_after(const struct plan_step *steps, size_t count, uint8_t *memory, size_t size);

/* Whether a write left its range as it was before: what a faulty one must do. */
bool plan_untouched(const struct plan_step *step, const uint8_t *memory);

#endif
