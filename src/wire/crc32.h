/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32.h: CRC-32 as gzip and Ethernet have it, as fast as the processor allows. */
#ifndef WIRE_CRC32_H
#define WIRE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues a CRC, 0 at first, over more bytes; returns it. The same as ISA-L's crc32_gzip_refl(). */
uint32_t crc32_update(uint32_t crc, const void *data, size_t length);

#endif
