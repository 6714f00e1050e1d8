/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.h: questions to this host that no file answers. Each has a path under /.godwit and answers with a text, so that a
 * copy of the host can hold the answer as a file. docs/doctor.md describes every one.
 */
#ifndef DOCTOR_PROBE_H
#define DOCTOR_PROBE_H

#include "scratch.h"

/* Where the answers are, in a copy. */
#define PROBE_ROOT "/.godwit/"

/*
 * Asks: `path` is what follows PROBE_ROOT, pid the process that stands for the job (0: this one). Returns 0 with the answer
 * in `out`; -ENOENT: there is no such question, or nothing there to ask; -ENOSYS: built without it; -errno.
 */
int probe_ask(const char *path, long pid, struct builder *out);

/* The groups of questions: `rest` is what follows the group's name. */
int probe_netlink(const char *rest, long pid, struct builder *out);
int probe_ethtool(const char *rest, long pid, struct builder *out);
int probe_verbs(const char *rest, long pid, struct builder *out);
int probe_job(const char *rest, long pid, struct builder *out);
int probe_library(const char *rest, long pid, struct builder *out);

#endif
