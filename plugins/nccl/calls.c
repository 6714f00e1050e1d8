/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that are not about data: the beginning of a communicator, devices, listening, connecting, accepting.
 *
 * A setting that is wrong must not make init() fail: NCCL would then use its own sockets without a word. It is told in a
 * warning, and listen() fails.
 */
#include "calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "meet.h"

#define MAX_CONNECTIONS 65536

struct process process = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake_fd = -1, .ask_fd = -1 };

/* Which rank this is, as launchers say in the environment. */
static void name_oneself(void)
{
	static const char *const names[] = { "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
					     "SLURM_PROCID" };
	char host[32] = "";
	const char *rank = NULL;

	for (size_t i = 0; !rank && i < sizeof(names) / sizeof(names[0]); i++)
		rank = getenv(names[i]);
	gethostname(host, sizeof(host) - 1);
	if (rank && rank[0])
		snprintf(process.who, sizeof(process.who), "rank %.10s (%s, process %d)", rank,
			 host, (int)getpid());
	else
		snprintf(process.who, sizeof(process.who), "process %d (%s)", (int)getpid(), host);
}

/* LL128 relies on the order of stores within a line, which only GPUs among themselves keep; lines of LL are safe. Parity is
 * decoded in place, where a flag may show for a moment: then it has to be Simple. */
static int check_protocol(const struct settings *settings, char *why, size_t size)
{
	const char *protocol = getenv("NCCL_PROTO");

	if (protocol && protocol[0] != '^' && strcasestr(protocol, "LL128")) {
		snprintf(why, size,
			 "NCCL_PROTO=%.60s asks for LL128, which only works inside a host",
			 protocol);
		return -EINVAL;
	}
	if (!settings->parity)
		return 0;
	if (protocol && strcasecmp(protocol, "Simple") != 0) {
		snprintf(why, size, "GODWIT_SCHEME=auto needs NCCL_PROTO=Simple, and it is %.60s",
			 protocol);
		return -EINVAL;
	}
	setenv("NCCL_PROTO", "Simple", 1);
	return 0;
}

static void introduce(int version)
{
	const struct settings *settings = &process.settings;

	say_info(
		"version %s, interface v%d; %s on %s (%s)%s; %s; controller %s; %u engine thread%s%s%s",
		gw_version(), version, settings->verbs ? "verbs" : "roce", process.device[0].name,
		process.device[0].address, process.devices > 1 ? " and others" : "",
		settings->parity
			? "Selective Repeat or parity, by the loss measured, NCCL_PROTO=Simple set"
			: "Selective Repeat: exact, and flags of LL are safe",
		settings->congestion, settings->threads, settings->threads == 1 ? "" : "s",
		settings->secret_file ? ", peers need the secret" : "",
		settings->seal ? ", packets sealed" : "");
}

/* The first communicator of the process. Holds process.lock. */
static int begin(int version, nccl_log_fn *log)
{
	const char *interfaces;
	char why[512] = "", unknown[64];
	int error;

	error = settings_read(&process.settings, why, sizeof(why));
	if (!error)
		error = check_protocol(&process.settings, why, sizeof(why));
	say_begin(log);
	if (error) {
		process.misconfigured = true;
		say_warn("%s. No connection will be made.", why);
	}
	if (settings_unknown((const char *const *)environ, unknown, sizeof(unknown)))
		say_warn("%s is no setting of this plugin and does nothing", unknown);
	interfaces = process.settings.interfaces;
	if (!interfaces)
		interfaces = getenv("NCCL_SOCKET_IFNAME");
	process.devices =
		devices_find(interfaces, process.settings.verbs, process.device, DEVICES_MAX);
	if (!process.devices && (process.settings.verbs || (interfaces && interfaces[0]))) {
		process.misconfigured = true;
		if (process.settings.verbs)
			say_warn(
				"GODWIT_FABRIC=verbs: no RDMA device has an active port with a RoCE v2 GID for the address of an interface%s%s. No connection will be made.",
				interfaces ? " that is selected by " : "",
				interfaces ? interfaces : "");
		else
			say_warn(
				"no interface that is up and has an address is selected by \"%s\". No connection will be made.",
				interfaces);
		/* NCCL goes on only with a device; listen() will fail. */
		process.devices = devices_find(NULL, false, process.device, DEVICES_MAX);
	}
	if (!process.devices) {
		say_warn("no network interface is up and has an address");
		return -ENODEV;
	}
	name_oneself();
	error = keeper_start();
	if (error)
		return error;
	process.begun = true;
	if (!process.misconfigured)
		introduce(version);
	return 0;
}

int core_init(int version, uint64_t id, int traffic_class, nccl_log_fn *log, void **context)
{
	struct communicator *communicator;
	int error = 0;

	if (atomic_load(&process.forked))
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&process.lock);
	if (!process.begun)
		error = begin(version, log);
	else
		atomic_store(&process.log, log);
	communicator = error ? NULL : calloc(1, sizeof(*communicator));
	if (communicator) {
		communicator->id = id;
		communicator->traffic_class = traffic_class;
		communicator->next = process.communicators;
		process.communicators = communicator;
	}
	pthread_mutex_unlock(&process.lock);
	*context = communicator;
	return communicator ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

/* The context stays, for statistics: communicators split from another one share it. */
int core_finalize(void *context)
{
	struct communicator *communicator = context;

	if (!communicator)
		return NCCL_SUCCESS;
	pthread_mutex_lock(&process.lock);
	communicator->finalized = true;
	if (process.settings.statistics)
		watch_statistics();
	pthread_mutex_unlock(&process.lock);
	return NCCL_SUCCESS;
}

int core_devices(int *count)
{
	*count = process.devices;
	return NCCL_SUCCESS;
}

int core_properties(int dev, struct nccl_properties_v12 *out)
{
	struct device *device;

	if (dev < 0 || dev >= process.devices)
		return NCCL_INVALID_ARGUMENT;
	device = &process.device[dev];
	*out = (struct nccl_properties_v12){
		.name = device->name,
		.pci_path = device->pci_path[0] ? device->pci_path : NULL,
		.guid = device->guid,
		.memory = NCCL_MEMORY_HOST,
		.speed = process.settings.speed ? (int)process.settings.speed : device->speed,
		.port = device->port,
		.max_connections = MAX_CONNECTIONS,
		.max_receives = 1,
		.device_type = NCCL_DEVICE_HOST,
		.devices = { .count = 1, .dev = { dev } },
		.max_p2p_bytes = NCCL_BYTES_MAX_V8,
		.max_collective_bytes = NCCL_BYTES_MAX_V8,
		.max_multi_request = 1,
		.rail = NCCL_UNDEFINED,
		.plane = NCCL_UNDEFINED,
	};
	return NCCL_SUCCESS;
}

/* Before version 11 there is no context; the first communicator stands for all. */
static struct communicator *communicator_of(void *context)
{
	return context ? context : process.communicators;
}

int core_listen(void *context, int dev, void *handle, void **listener)
{
	struct communicator *communicator;
	struct handle *h = handle;
	struct endpoint *endpoint;
	struct listener *l;
	int error;

	*listener = NULL;
	if (atomic_load(&process.forked))
		return NCCL_INVALID_USAGE;
	if (process.misconfigured) {
		say_warn(
			"a setting is wrong, see the first warning; NCCL_NET_PLUGIN=none uses NCCL's own networks");
		return NCCL_INVALID_USAGE;
	}
	l = calloc(1, sizeof(*l));
	if (!l || getrandom(l->token, sizeof(l->token), 0) != sizeof(l->token)) {
		free(l);
		return NCCL_SYSTEM_ERROR;
	}
	pthread_mutex_lock(&process.lock);
	communicator = communicator_of(context);
	error = endpoint_get(dev, communicator ? communicator->traffic_class : -1, &endpoint);
	if (!error) {
		memset(handle, 0, NCCL_HANDLE_BYTES);
		h->magic = HANDLE_MAGIC;
		h->version = HANDLE_VERSION;
		h->mark = settings_mark(&process.settings);
		h->port = gw_rendezvous_listener_port(endpoint->meets);
		memcpy(h->token, l->token, sizeof(h->token));
		memcpy(h->address, endpoint->device->address, sizeof(h->address));
		l->endpoint = endpoint;
		l->communicator = communicator;
		l->next = process.listeners;
		process.listeners = l;
	}
	pthread_mutex_unlock(&process.lock);
	if (error) {
		free(l);
		return NCCL_SYSTEM_ERROR;
	}
	keeper_wake();
	*listener = l;
	return NCCL_SUCCESS;
}

int core_close_listen(void *listener)
{
	struct listener *l = listener, **at = &process.listeners;

	if (!l || atomic_load(&process.forked))
		return NCCL_SUCCESS;
	pthread_mutex_lock(&process.lock);
	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
	while (l->ready) {
		struct connection *c = l->ready;

		l->ready = c->next;
		connection_free(c);
	}
	pthread_mutex_unlock(&process.lock);
	free(l);
	return NCCL_SUCCESS;
}

/* Why a handle cannot be used, or null. */
static const char *refuse(const struct handle *h)
{
	static char why[128];

	if (h->magic != HANDLE_MAGIC)
		return "the handle is not one of this plugin: do all ranks load it?";
	if (h->version != HANDLE_VERSION)
		return "the other rank has another version of the plugin";
	if (h->mark == settings_mark(&process.settings))
		return NULL;
	snprintf(why, sizeof(why), "the two ranks differ in %s",
		 settings_difference(h->mark, settings_mark(&process.settings)));
	return why;
}

int core_connect(void *context, int dev, int traffic_class, void *handle, void **sender)
{
	struct handle *h = handle;
	struct communicator *communicator;
	struct connection *c = NULL;
	struct endpoint *endpoint;
	const char *why;
	int result = 0;

	*sender = NULL;
	if (atomic_load(&process.forked) || process.misconfigured)
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&process.lock);
	communicator = communicator_of(context);
	if (traffic_class < 0 && communicator)
		traffic_class = communicator->traffic_class;
	why = refuse(h);
	if (why) {
		say_warn("no connection: %s", why);
		result = -EINVAL;
	} else if (h->meeting) {
		result = meet_result(h->meeting, now_ns(), &c);
	} else {
		result = endpoint_get(dev, traffic_class, &endpoint);
		if (!result) {
			h->meeting = meet_begin(endpoint, communicator, h);
			result = h->meeting ? 0 : -ENOMEM;
		}
	}
	if (result)
		h->meeting = 0;
	pthread_mutex_unlock(&process.lock);
	*sender = c;
	if (result >= 0)
		return NCCL_SUCCESS;
	return result == -EINVAL ? NCCL_INVALID_USAGE : NCCL_REMOTE_ERROR;
}

int core_accept(void *listener, void **receiver)
{
	struct listener *l = listener;

	*receiver = NULL;
	if (atomic_load(&process.forked))
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&process.lock);
	if (l->ready) {
		struct connection *c = l->ready;

		l->ready = c->next;
		connection_enlist(c, l->communicator);
		*receiver = c;
	}
	pthread_mutex_unlock(&process.lock);
	return NCCL_SUCCESS;
}
