/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * survey.h: all ranks measure all pairs.
 *
 * Pairs are measured in rounds, as in a tournament: in each of N - 1 rounds (N for an odd number) every rank has one partner,
 * so that no two pairs use the link of the same host. Then, with all hosts at once, rank i sends to rank i + k and receives from rank
 * i - k, for each k from 1 to N - 1.
 */
#ifndef TOOLS_MESH_SURVEY_H
#define TOOLS_MESH_SURVEY_H

#include "job.h"
#include "matrix.h"

/* Measures, and gives every rank the whole matrix. On failure the reason is in the job's report. */
int survey(struct mesh_job *job, struct gw_comm *comm, struct matrix *out);

#endif
