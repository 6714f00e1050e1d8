/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What NCCL's lines say about the process that wrote them: its network and plugin, its communicators and connections. The
 * messages are those of NCCL 2.18 to 2.30; where releases differ, both forms are named.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "joblog.h"
#include "joblog_nccl.h"

#define VARIABLES_MAX 128u

const char *joblog_after(const char *text, const char *words)
{
	const char *at = strstr(text, words);

	return at ? at + strlen(words) : NULL;
}

/* Reads the number behind a word: " rank 3". */
static bool number_after(const char *text, const char *word, long *out)
{
	const char *at = joblog_after(text, word);
	char *end;
	long value;

	if (!at)
		return false;
	value = strtol(at, &end, 10);
	if (end == at || value < -1 || value > INT32_MAX)
		return false;
	*out = value;
	return true;
}

static const char *word_of(struct joblog *log, const char *at)
{
	return joblog_text(log, at, strcspn(at, " \t,"));
}

static struct joblog_process *process_of(struct joblog_context *c)
{
	return &c->log->processes[c->process];
}

static void remember_variable(struct joblog_context *c, const char *name, size_t name_length,
			      const char *value)
{
	struct joblog_process *process = process_of(c);
	size_t length = strcspn(value, "\n");
	struct joblog_variable *variable;
	const char *known = joblog_text(c->log, name, name_length);

	/* A number ends in a full stop that is not part of it. */
	if (length && value[length - 1] == '.' && length > 1 &&
	    isdigit((unsigned char)value[length - 2]))
		length--;
	if (strcmp(known, "NCCL_HOSTID") == 0)
		process->host_id = joblog_text(c->log, value, length);
	if (joblog_variable(process, known) || process->variable_count >= VARIABLES_MAX)
		return;
	variable = scratch_alloc(&c->log->scratch, sizeof(*variable));
	variable->name = known;
	variable->value = joblog_text(c->log, value, length);
	variable->next = process->variables;
	process->variables = variable;
	process->variable_count++;
}

/* "NCCL_IB_DISABLE set by environment to 1.", "NCCL_IB_HCA set to mlx5". */
static bool take_variable(struct joblog_context *c)
{
	const char *text = c->text, *set = strstr(text, " set by environment to ");
	size_t skip = 23, length = strcspn(text, " ");

	if (strncmp(text, "NCCL_", 5) != 0)
		return false;
	if (!set) {
		set = strstr(text, " set to ");
		skip = 8;
	}
	if (!set || set != text + length)
		return false;
	remember_variable(c, text, length, set + skip);
	return true;
}

static void plugin_missing(struct joblog_context *c, const char *names, size_t length)
{
	struct joblog_process *process = process_of(c);

	process->plugin_missing = joblog_text(c->log, names, length);
	if (!process->plugin_place.file)
		process->plugin_place = c->place;
}

/*
 * The loader's words. "libnccl-net.so: cannot open shared object file: No such file or directory" says that there is no
 * plugin; of another library the same words say that the plugin is there and lacks that one.
 */
static void plugin_error(struct joblog_context *c, const char *text)
{
	struct joblog_process *process = process_of(c);
	const char *none = strstr(text, ": cannot open shared object file: No such file");
	const char *name = none;

	while (name && name > text && name[-1] != ' ' && name[-1] != '/')
		name--;
	if (none && strncmp(name, "libnccl-net", 11) == 0) {
		plugin_missing(c, name, (size_t)(none - name));
		return;
	}
	process->plugin_error = joblog_text(c->log, text, strlen(text));
	process->plugin_place = c->place;
}

/* "NET/Plugin: ", "NET/Plugin : " (2.18); and what 2.28 says of a library that is no plugin. */
static bool take_plugin(struct joblog_context *c)
{
	struct joblog_process *process = process_of(c);
	const char *text = c->text + 10, *at;

	if (strncmp(c->text, "External network plugin ", 24) == 0) {
		plugin_error(c, c->text);
		return true;
	}
	if (strncmp(c->text, "NET/Plugin", 10) != 0)
		return false;
	text += strspn(text, " :");
	if ((at = joblog_after(text, "Loaded net plugin "))) {
		process->plugin = joblog_text(c->log, at, strlen(at));
		process->plugin_place = c->place;
	} else if ((at = joblog_after(text, "Could not find: "))) {
		const char *end = strstr(at, ". Using");

		plugin_missing(c, at, end ? (size_t)(end - at) : strlen(at));
	} else if ((at = joblog_after(text, "No plugin found ("))) {
		plugin_missing(c, at, strcspn(at, ")"));
	} else if (strstr(text, "Plugin load") ||
		   strncmp(text, "Failed to find ncclNetPlugin symbol", 35) == 0 ||
		   (strstr(text, ".so") && strstr(text, ": "))) {
		plugin_error(c, text);
	}
	return true;
}

static bool take_network(struct joblog_context *c)
{
	struct joblog_process *process = process_of(c);
	const char *at;

	if ((at = joblog_after(c->text, "Using network "))) {
		process->network = joblog_text(c->log, at, strlen(at));
		if (!process->network_place.file)
			process->network_place = c->place;
		process->initializing = true;
	} else if ((at = joblog_after(c->text, "Bootstrap: Using ")) ||
		   (at = joblog_after(c->text, "Bootstrap : Using "))) {
		process->bootstrap = joblog_text(c->log, at, strlen(at));
		process->bootstrap_place = c->place;
	} else if ((at = joblog_after(c->text, "NET/IB : Using"))) {
		unsigned count = 0;
		size_t length = strcspn(at, ";");

		for (const char *b = at; b < at + length; b++)
			count += b[0] == '[' && isdigit((unsigned char)b[1]);
		process->nic_count = count;
		process->nics = joblog_text(c->log, at + (*at == ' '), length - (*at == ' '));
	} else if (strstr(c->text, "NET/IB : No device found")) {
		process->no_device = true;
	} else if (strstr(c->text, "Failed to open libibverbs")) {
		process->no_verbs = true;
	} else if (strcmp(c->text, "Failed to initialize NET plugin IB") == 0) {
		process->ib_failed = true;
	} else if (strncmp(c->text, "NCCL version ", 13) == 0 ||
		   strncmp(c->text, "RCCL version ", 13) == 0) {
		process->version = word_of(c->log, c->text + 13);
	} else {
		return false;
	}
	return true;
}

/* "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 5 > 3)" */
static bool take_gdr(struct joblog_context *c)
{
	struct joblog_process *process = process_of(c);
	const char *at = joblog_after(c->text, "GPU Direct RDMA ");

	if (!at || strncmp(c->text, "NET/Socket", 10) == 0)
		return at != NULL;
	process->net_lines = true;
	if (strncmp(at, "Enabled", 7) == 0) {
		process->gdr_on = true;
		return true;
	}
	process->gdr_off = true;
	/* The distance says more than that the adapter cannot. */
	if (!process->gdr_reason || strstr(at, "distance")) {
		process->gdr_reason = joblog_text(c->log, at, strlen(at));
		process->gdr_place = c->place;
	}
	return true;
}

static uint64_t pointer_key(uint32_t process, const char *pointer, size_t length)
{
	return joblog_hash(process + UINT64_C(0x10000), pointer, length);
}

static uint64_t thread_key(uint32_t process, long thread)
{
	return joblog_hash(process + UINT64_C(0x20000), &thread, sizeof(thread));
}

/*
 * Names the communicator of an "Init" line: by its commId; a split without one by its parent's name, the number of the split
 * and the colour. Returns 0 if the line has neither.
 */
static uint64_t communicator_key(struct joblog_context *c, const char **name)
{
	const char *id = joblog_after(c->text, " commId "), *parent, *rest;
	uint64_t base = 0;
	uint32_t at;

	if (id) {
		*name = word_of(c->log, id);
		return joblog_hash(1, *name, strlen(*name));
	}
	parent = joblog_after(c->text, " parent ");
	rest = parent ? strchr(parent, ' ') : NULL;
	if (!rest)
		return 0;
	at = joblog_get(&c->log->pointer_index,
			pointer_key(c->process, parent, (size_t)(rest - parent)));
	if (at != JOBLOG_NONE)
		base = c->log->communicators[c->log->members[at].communicator].key;
	*name = joblog_text(c->log, rest + 1, strcspn(rest + 1, "-"));
	/* The key of a split is the rank it asks for: it differs between its ranks. */
	return joblog_hash(base + 2, rest, (size_t)((strstr(rest, " key ") ?: rest) - rest));
}

static void remember_member(struct joblog_context *c, const struct joblog_member *member)
{
	struct joblog_process *process = process_of(c);
	uint32_t number = (uint32_t)(member - c->log->members);
	const unsigned most = sizeof(process->recent) / sizeof(process->recent[0]);

	if (process->recent_count && process->recent[process->recent_count - 1] == number)
		return;
	if (process->recent_count == most) {
		memmove(process->recent, process->recent + 1,
			(most - 1) * sizeof(process->recent[0]));
		process->recent_count--;
	}
	process->recent[process->recent_count++] = number;
}

/* "... comm 0x1 rank 0 nranks 2 ... commId 0x2 - Init START" (or COMPLETE). */
static bool take_init(struct joblog_context *c)
{
	const char *comm = joblog_after(c->text, "comm "), *name = "", *bus;
	bool complete = strstr(c->text, "Init COMPLETE") != NULL;
	struct joblog_member *member;
	struct joblog_communicator *communicator;
	uint64_t key;
	long rank, ranks;

	if (!comm || (!complete && !strstr(c->text, "Init START")) ||
	    !number_after(comm, " rank ", &rank) || !number_after(comm, " nranks ", &ranks) ||
	    rank < 0 || rank >= ranks)
		return false;
	key = communicator_key(c, &name);
	if (!key)
		return false;
	member = joblog_member(c->log, key, name, ranks, rank, c->process);
	if (!member)
		return true;
	joblog_set(c->log, &c->log->pointer_index,
		   pointer_key(c->process, comm, strcspn(comm, " ")),
		   (uint32_t)(member - c->log->members));
	joblog_set(c->log, &c->log->thread_index, thread_key(c->process, c->thread),
		   (uint32_t)(member - c->log->members));
	remember_member(c, member);
	if (!process_of(c)->bus && (bus = joblog_after(c->text, " busId ")))
		process_of(c)->bus = word_of(c->log, bus);
	communicator = &c->log->communicators[member->communicator];
	if (!communicator->first.file)
		communicator->first = c->place;
	communicator->started += !member->started;
	member->started = true;
	if (!member->place.file || complete)
		member->place = c->place;
	communicator->completed += complete && !member->completed;
	member->completed |= complete;
	process_of(c)->initializing = false;
	return true;
}

static struct joblog_member *member_by_pointer(struct joblog_context *c)
{
	const char *comm = joblog_after(c->text, "comm ");
	uint32_t at;

	if (!comm)
		return NULL;
	at = joblog_get(&c->log->pointer_index, pointer_key(c->process, comm, strcspn(comm, " ")));
	return at == JOBLOG_NONE ? NULL : &c->log->members[at];
}

static struct joblog_member *member_by_thread(struct joblog_context *c)
{
	uint32_t at = joblog_get(&c->log->thread_index, thread_key(c->process, c->thread));

	return at == JOBLOG_NONE ? NULL : &c->log->members[at];
}

/* What is said about a communicator between its lines of Init, and at its end. */
static bool take_communicator(struct joblog_context *c)
{
	struct joblog_member *member;
	const char *at;
	long number;

	if (strstr(c->text, " nNodes ") && (member = member_by_pointer(c))) {
		if (number_after(c->text, " nNodes ", &number) && number > 0)
			member->nodes = (unsigned)number;
	} else if (strstr(c->text, " coll channels,") && (member = member_by_thread(c))) {
		number = strtol(c->text, NULL, 10);
		if (number > 0 && number < 1024)
			member->channels = (unsigned)number;
	} else if (strstr(c->text, "- Abort COMPLETE") || strstr(c->text, "- Abort START")) {
		member = member_by_pointer(c);
		if (member && !member->aborted) {
			member->aborted = true;
			c->log->communicators[member->communicator].aborted++;
		}
	} else if ((at = joblog_after(c->text, "Init timings")) &&
		   (at = joblog_after(at, "bootstrap ")) && (member = member_by_thread(c))) {
		member->bootstrap_s = strtod(at, NULL);
	} else {
		return false;
	}
	return true;
}

/* Finds the communicator in which the process has this rank, and the peer's rank exists. */
static uint32_t communicator_of(struct joblog_context *c, long mine, long peer, bool net)
{
	const struct joblog_process *process = process_of(c);
	const struct joblog_member *thread = member_by_thread(c);

	for (unsigned i = 0; i <= process->recent_count; i++) {
		const struct joblog_member *member =
			i == 0 ? thread
			       : &c->log->members[process->recent[process->recent_count - i]];

		if (member && member->rank == mine &&
		    peer < c->log->communicators[member->communicator].ranks &&
		    !(net && member->nodes == 1))
			return member->communicator;
	}
	return JOBLOG_NONE;
}

/* Writes "NET/IB/GDRDMA" of "NET/IB/0(3)/GDRDMA(PCI)/Shared"; sets the device's number. */
static const char *transport_of(struct joblog *log, const char *via, long *device)
{
	const char *slash = strchr(via, '/');
	size_t length = strcspn(via, " \t");
	struct builder name = { 0 };
	const char *result;

	*device = -1;
	if (strncmp(via, "SHM", 3) == 0)
		return joblog_text(log, "SHM", 3);
	if (strncmp(via, "NET/", 4) != 0) {
		/* P2P/IPC/read, P2P/direct pointer */
		if (strncmp(via, "P2P/direct", 10) == 0)
			return joblog_text(log, "P2P/direct", 10);
		slash = slash ? strchr(slash + 1, '/') : NULL;
		if (slash && (size_t)(slash - via) < length)
			length = (size_t)(slash - via);
		return joblog_text(log, via, length);
	}
	/* A plugin's name may have blanks: it ends where a slash and a number follow. */
	for (slash = strchr(via + 4, '/'); slash && !isdigit((unsigned char)slash[1]);)
		slash = strchr(slash + 1, '/');
	if (!slash)
		return joblog_text(log, via, length);
	*device = strtol(slash + 1, NULL, 10);
	builder_add(&name, via, (size_t)(slash - via));
	builder_print(&name, "%s", strstr(slash, "/GDRDMA") ? "/GDRDMA" : "");
	result = joblog_text(log, name.text, name.length);
	builder_free(&name);
	return result;
}

/* "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0" */
static bool take_connection(struct joblog_context *c)
{
	const char *at = strncmp(c->text, "Channel ", 8) == 0 ? strstr(c->text, " : ") : NULL;
	const char *via = joblog_after(c->text, " via "), *transport;
	struct joblog_pair *pair;
	char *end;
	long from, to, device;
	bool receive = strstr(c->text, "[receive]") != NULL;
	uint32_t communicator;

	if (!at || !via)
		return false;
	from = strtol(at + 3, &end, 10);
	at = *end == '[' ? strstr(end, "-> ") : NULL;
	if (!at)
		return false;
	to = strtol(at + 3, &end, 10);
	if (*end != '[' || from < 0 || to < 0 || from > INT32_MAX || to > INT32_MAX)
		return false;
	transport = transport_of(c->log, via, &device);
	communicator = communicator_of(c, receive ? to : from, receive ? from : to,
				       strncmp(via, "NET/", 4) == 0);
	pair = joblog_pair(c->log, communicator, c->process, from, to);
	if (!pair)
		return true;
	if (!pair->transport) {
		pair->transport = transport;
		pair->place = c->place;
	} else if (strcmp(pair->transport, transport) != 0) {
		pair->second = transport;
	}
	/* Both ends write a line of a network connection; the sender's are counted. */
	pair->channels += !receive;
	if (device >= 0 && device < 64)
		pair->devices |= UINT64_C(1) << device;
	return true;
}

void joblog_nccl(struct joblog_stream *stream, const struct joblog_line *line, const char *whole)
{
	struct joblog_process *process =
		joblog_process(stream->log, line->host, line->host_length, line->pid);
	struct joblog_context c = { .stream = stream,
				    .log = stream->log,
				    .thread = line->thread,
				    .text = line->text,
				    .whole = whole,
				    .place = { stream->file, stream->line } };

	if (!process)
		return;
	c.process = joblog_process_number(stream->log, process);
	if (!process->first.file)
		process->first = c.place;
	if (line->launcher_rank >= 0 && process->launcher_rank < 0)
		process->launcher_rank = line->launcher_rank;
	process->info_lines += !line->warning;
	process->warn_lines += line->warning;
	if (take_variable(&c) || take_connection(&c) || take_plugin(&c) || take_network(&c) ||
	    take_gdr(&c) || take_init(&c) || take_communicator(&c))
		return;
	joblog_failure(&c, line->warning);
}
