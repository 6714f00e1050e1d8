/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * no_isal.h: the functions of ISA-L that libgodwit uses, under the same names and with the same results, for a plugin that is one
 * file. The CRC uses the processor's carry-less multiplication; coding is plain C and slow, and Selective Repeat never codes.
 */
#ifndef PLUGINS_NCCL_NO_ISAL_H
#define PLUGINS_NCCL_NO_ISAL_H

#include <stdint.h>

uint32_t crc32_gzip_refl(uint32_t crc, const unsigned char *data, uint64_t length);
unsigned char gf_mul(unsigned char a, unsigned char b);
void ec_init_tables(int columns, int rows, unsigned char *matrix, unsigned char *tables);
void ec_encode_data(int length, int columns, int rows, unsigned char *tables, unsigned char **data,
		    unsigned char **coding);
void ec_encode_data_update(int length, int columns, int rows, int column, unsigned char *tables,
			   unsigned char *data, unsigned char **coding);
int xor_gen(int vectors, int length, void **array);

#endif
