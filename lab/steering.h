/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steering.h: lets other processors than the switch's receive. A packet that is written to a TUN is received by the kernel on the
 * processor that writes it: TCP's answer to it, and the data that a sender's acknowledgement lets go, are then work of the
 * switch, during which other packets are late. The kernel's receive packet steering (RPS) hands that work to the processor that a
 * flow's hash names.
 */
#ifndef LAB_STEERING_H
#define LAB_STEERING_H

#include <sched.h>
#include <stdbool.h>

#define STEERING_MASK_SIZE 12

/*
 * Writes the processors to receive on as the kernel reads them: those of the first 32 that the lab may use. Returns false where
 * there are too few of them for `hosts`: a processor for each host and as many again, so that the switch keeps one.
 */
bool steering_mask(const cpu_set_t *processors, unsigned hosts, char mask[STEERING_MASK_SIZE]);

/* Turns it on for the interface of the network that the caller is in, in a mount namespace of its own. The kernel lets
 * only root do so; does nothing if not permitted. */
void steering_start(unsigned hosts);

#endif
