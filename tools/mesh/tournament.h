/* SPDX-License-Identifier: BSD-3-Clause */
/* tournament.h: rounds in which every rank has one partner, so that every two ranks meet once. */
#ifndef TOOLS_MESH_TOURNAMENT_H
#define TOOLS_MESH_TOURNAMENT_H

/* Rounds: ranks - 1, or as many as ranks if that is odd. */
unsigned tournament_rounds(unsigned ranks);
/* Partner of a rank in a round, from 0 on; the rank itself: none. */
unsigned tournament_partner(unsigned ranks, unsigned round, unsigned rank);

#endif
