/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.h: one text from rank 0 to all ranks, through the launcher's PMIx server.
 *
 * PMIx is found when the program runs (libpmix.so.2), so that neither building nor running without it needs it. The few types and
 * numbers of its interface that are used here are the same since version 2; a test holds them against PMIx's own header.
 */
#ifndef COLLECTIVE_PMIX_H
#define COLLECTIVE_PMIX_H

#include <stddef.h>
#include <stdint.h>

/* pmix_proc_t */
struct pmix_process {
	char nspace[256];
	uint32_t rank;
};

/* pmix_value_t; only texts are read and written. Its union has 8 to 24 bytes, and room for more is left. */
struct pmix_text {
	uint16_t type;
	union {
		char *string;
		uint64_t room[8];
	} data;
};

enum {
	PMIX_TYPE_STRING = 3,
	PMIX_SCOPE_GLOBAL = 3,
	PMIX_STATUS_TIMEOUT = -24,
	PMIX_STATUS_NOT_FOUND = -46,
};

/*
 * Rank 0 gives `text`, and at the others the text of rank 0 is written to it; of `size` bytes. These wait for rank 0, for
 * `wait_ns` at most. The connection with the server is kept until the process exits, since MPI_Init() could not make another.
 * -ENOENT     there is no PMIx library
 * -EPROTO     it has not the functions of PMIx, or there is no server
 * -ETIMEDOUT  rank 0 has given nothing
 */
int pmix_share(uint32_t rank, char *text, size_t size, uint64_t wait_ns);

#endif
