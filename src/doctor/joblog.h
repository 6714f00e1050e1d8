/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * joblog.h: a training job as its logs tell it: processes, communicators, connections between ranks, failures.
 *
 * The logs are NCCL's (NCCL_DEBUG=INFO, 2.18 to 2.30) with whatever a launcher puts around the lines, and what PyTorch's
 * watchdog, torchrun and Slurm write between them. They are read once, line by line; what is kept grows with the job, not
 * with the logs, and every table has a limit. Lines come from many hosts, cut, interleaved and in any order: a line that is
 * not understood is skipped, and no line can do more than put a wrong value into a table.
 *
 * A process is known by its host's name and its number. Lines name ranks by their number in one communicator; the job's
 * rank of a process is the launcher's if it says so, or its number in its largest communicator.
 */
#ifndef DOCTOR_JOBLOG_H
#define DOCTOR_JOBLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scratch.h"

/* Limits of the tables. */
#define JOBLOG_PROCESSES_MAX 65536u
#define JOBLOG_MEMBERS_MAX   (1u << 20)
#define JOBLOG_PAIRS_MAX     (1u << 19)
#define JOBLOG_TEXTS_MAX     65536u
#define JOBLOG_TEXT_MAX	     240u
#define JOBLOG_EVENTS_MAX    4096u
#define JOBLOG_FILES_MAX     65536u
/* Most bytes of a line that are looked at. */
#define JOBLOG_LINE_MAX 8192u

#define JOBLOG_NONE UINT32_MAX

/* From 64-bit hashes to positions in a table. Two names with one hash are taken for one. */
struct joblog_index {
	uint64_t *keys;
	uint32_t *values;
	size_t count;
	size_t room;
};

/* Place of a line, for people. */
struct joblog_place {
	const char *file;
	unsigned long line;
};

struct joblog_variable {
	const char *name;
	const char *value;
	struct joblog_variable *next;
};

struct joblog_process {
	const char *host;
	long pid;
	/* NCCL_HOSTID, which makes NCCL take processes of one host for two; null: not set */
	const char *host_id;
	/* address of its GPU on the bus; null until a communicator names it */
	const char *bus;
	/* rank that the launcher put before the line; -1: none */
	long launcher_rank;
	/* its rank in the job, and the ranks of that job; -1: unknown */
	long rank;
	long ranks;
	struct joblog_place first;
	unsigned long info_lines;
	unsigned long warn_lines;
	/* the NET subsystem was logged */
	bool net_lines;
	/* each null until a line says it; texts are shared, so that equal ones have one address */
	const char *version;
	/* "Using network" */
	const char *network;
	struct joblog_place network_place;
	const char *plugin;
	/* loader's words about a plugin that exists, and names under which none was found */
	const char *plugin_error;
	const char *plugin_missing;
	struct joblog_place plugin_place;
	const char *bootstrap;
	struct joblog_place bootstrap_place;
	/* "NET/IB : Using": the adapters, and their number */
	const char *nics;
	unsigned nic_count;
	/* NET/IB found no device; libibverbs does not load; NET/IB was not initialized */
	bool no_device;
	bool no_verbs;
	bool ib_failed;
	/* GPUDirect RDMA by what NCCL says about its adapters, and why */
	bool gdr_on;
	bool gdr_off;
	const char *gdr_reason;
	struct joblog_place gdr_place;
	/* began an initialization ("Using network") that no communicator has taken up */
	bool initializing;
	struct joblog_variable *variables;
	unsigned variable_count;
	/* communicator members that it began last, newest last */
	uint32_t recent[16];
	unsigned recent_count;
};

struct joblog_communicator {
	uint64_t key;
	const char *name;
	long ranks;
	uint32_t started;
	uint32_t completed;
	uint32_t aborted;
	struct joblog_place first;
	/* first member; the others follow by `next` */
	uint32_t member;
};

/* One rank of a communicator. */
struct joblog_member {
	uint32_t communicator;
	uint32_t process;
	uint32_t next;
	long rank;
	bool started;
	bool completed;
	bool aborted;
	/* number of hosts as NCCL counts them; 0: unknown */
	unsigned nodes;
	/* channels of collectives; 0: unknown */
	unsigned channels;
	/* time in the bootstrap; below 0: unknown */
	double bootstrap_s;
	struct joblog_place place;
};

/* Connections from one rank to another, of one communicator. */
struct joblog_pair {
	uint32_t communicator;
	/* process that said so */
	uint32_t process;
	long from;
	long to;
	/* "NET/IB/GDRDMA", "P2P/CUMEM", "SHM"; the first one that was named */
	const char *transport;
	/* another transport of the same pair, or null */
	const char *second;
	/* one bit for each network device */
	uint64_t devices;
	unsigned channels;
	struct joblog_place place;
};

enum joblog_kind {
	/* completion with an error: number is the status */
	EVENT_COMPLETION,
	/* asynchronous event of an RDMA device */
	EVENT_ASYNC,
	/* a call of libibverbs failed */
	EVENT_VERBS,
	/* TCP connection closed, refused, timed out */
	EVENT_SOCKET,
	/* retries of a connection */
	EVENT_RETRY,
	/* shared memory */
	EVENT_SHM,
	EVENT_DUPLICATE_GPU,
	EVENT_VERSION,
	EVENT_BOOTSTRAP,
	EVENT_CUDA,
	/* value of a variable that NCCL rejects */
	EVENT_VALUE,
	/* the network that NCCL_NET names was not found */
	EVENT_NO_NETWORK,
	/* adapters of two ranks do not fit together */
	EVENT_MISMATCH,
	/* another warning of NCCL */
	EVENT_WARNING,
	/* process ended: number is its exit status, below 0 the signal */
	EVENT_DEATH,
	EVENT_KINDS
};

/* Failures of one kind with one text on one process are one event. */
struct joblog_event {
	enum joblog_kind kind;
	long number;
	/* JOBLOG_NONE: not known */
	uint32_t process;
	/* rank by the launcher, where the process is not known; -1: not known */
	long rank;
	const char *text;
	/* peer, adapter; "" if not said */
	const char *peer;
	const char *device;
	unsigned long count;
	/* the launcher calls it the root cause */
	bool root;
	/* time of day as the line has it, "" if it has none */
	char when[16];
	struct joblog_place place;
};

/* What PyTorch's process group on one rank says about its collectives. */
struct joblog_work {
	/* group as named, and the rank in it */
	const char *group;
	long rank;
	/* rank in the job, as far as the line says */
	long job_rank;
	/* collective that timed out or failed, by its number; -1: none */
	long sequence;
	const char *operation;
	const char *elements;
	long ran_ms;
	/* watchdog spoke of a timeout, or of a failure */
	bool timed_out;
	bool failed;
	/* -2: not said; -1: none */
	long enqueued;
	long completed;
	char when[16];
	struct joblog_place place;
};

/* What is known about the lines of one file. */
struct joblog_stream {
	struct joblog *log;
	const char *file;
	unsigned long line;
	/* torchrun's report: the rank it speaks of, and whether it is the root cause */
	long report_rank;
	bool report_root;
};

struct joblog {
	struct scratch scratch;
	/* each table with its index; the numbers of entries are below */
	const char **texts;
	struct joblog_index text_index;
	struct joblog_process *processes;
	struct joblog_index process_index;
	struct joblog_communicator *communicators;
	struct joblog_index communicator_index;
	struct joblog_member *members;
	/* by communicator and rank; by process and the communicator's address; by process and thread */
	struct joblog_index member_index;
	struct joblog_index pointer_index;
	struct joblog_index thread_index;
	struct joblog_pair *pairs;
	struct joblog_index pair_index;
	struct joblog_event *events;
	struct joblog_index event_index;
	struct joblog_work *works;
	struct joblog_index work_index;
	/* NCCL's version where no process is named with it; null */
	const char *version;
	/* first file of a directory that could not be read, and why; null */
	const char *unreadable;
	unsigned long lines;
	unsigned long nccl_lines;
	unsigned long torch_lines;
	unsigned long cut_lines;
	/* entries that found their table full */
	unsigned long dropped;
	uint32_t text_count;
	uint32_t process_count;
	uint32_t communicator_count;
	uint32_t member_count;
	uint32_t pair_count;
	uint32_t event_count;
	uint32_t work_count;
	unsigned files;
	/* several processes of one host had the same GPU: the logs are of several runs */
	bool several_runs;
	/* no communicator has all processes: its ranks are not the job's */
	bool groups_only;
};

/* A line of NCCL's, taken apart. Texts point into the line, and end in a zero byte or by their length. */
struct joblog_line {
	const char *host;
	size_t host_length;
	long pid;
	long thread;
	bool warning;
	const char *text;
	/* rank that a launcher put before it; -1 */
	long launcher_rank;
};

/* Reads a file, "-" (standard input) or the files of a directory. Returns 0 or -errno. */
int joblog_read(struct joblog *log, const char *path);
/* Reads lines from memory, as a file of that name. */
void joblog_read_bytes(struct joblog *log, const char *name, const char *bytes, size_t length);
/* Reads a descriptor to its end. Returns 0 or -errno. */
int joblog_read_fd(struct joblog *log, const char *name, int fd);

/* After the last line: gives each process its rank. */
void joblog_seal(struct joblog *log);
void joblog_free(struct joblog *log);

/* joblog_line.c. Finds NCCL's header in a line, which may stand behind anything. */
bool joblog_line_parse(const char *line, struct joblog_line *out);
/* Returns the rank that torchrun ("[rank3]:"), srun -l ("3: ") or mpirun ("[1,3]<stdout>:") puts first, or -1. */
long joblog_launcher_rank(const char *line);
/* Copies the time of day in a line, "08:04:21.767"; "" if there is none. */
void joblog_time(const char *line, char out[16]);

/* joblog_nccl.c and joblog_torch.c. Each takes one line. */
void joblog_nccl(struct joblog_stream *stream, const struct joblog_line *line, const char *whole);
bool joblog_torch(struct joblog_stream *stream, const char *line);

/* joblog_store.c */
uint64_t joblog_hash(uint64_t seed, const void *bytes, size_t length);
/* Returns the value of a key, or JOBLOG_NONE; sets one. */
uint32_t joblog_get(const struct joblog_index *index, uint64_t key);
void joblog_set(struct joblog *log, struct joblog_index *index, uint64_t key, uint32_t value);
/* Returns the one copy of a text, cut to JOBLOG_TEXT_MAX. */
const char *joblog_text(struct joblog *log, const char *text, size_t length);
/* Returns the process, which is added if it is new; null: the table is full. */
struct joblog_process *joblog_process(struct joblog *log, const char *host, size_t length,
				      long pid);
/* Returns the member of a communicator, added if it is new; null: the table is full. */
struct joblog_member *joblog_member(struct joblog *log, uint64_t communicator, const char *name,
				    long ranks, long rank, uint32_t process);
const struct joblog_member *joblog_member_of(const struct joblog *log, uint32_t communicator,
					     long rank);
struct joblog_pair *joblog_pair(struct joblog *log, uint32_t communicator, uint32_t process,
				long from, long to);
/* Adds an event, or counts it. The place is the stream's. */
struct joblog_event *joblog_event(struct joblog_stream *stream, enum joblog_kind kind, long number,
				  uint32_t process, const char *text, const char *line);
struct joblog_work *joblog_work(struct joblog_stream *stream, const char *group, long rank);

uint32_t joblog_process_number(const struct joblog *log, const struct joblog_process *process);
const char *joblog_variable(const struct joblog_process *process, const char *name);

/* "rank 3 (node1)", "node1 process 549". */
const char *joblog_process_name(struct scratch *scratch, const struct joblog *log,
				uint32_t process);
/* Host that meets its peers over an address, which every process logs; null if none does. */
const char *joblog_host_of(const struct joblog *log, const char *address);
/* Name of a rank of a communicator: of the job's ranks if the process is known. */
const char *joblog_rank_name(struct scratch *scratch, const struct joblog *log,
			     uint32_t communicator, long rank);
/* "node1.log:17" */
const char *joblog_place_name(struct scratch *scratch, const struct joblog_place *place);
/* Whether NCCL takes two processes for processes of one host. */
bool joblog_same_host(const struct joblog_process *one, const struct joblog_process *two);

#endif
