/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: what the files of the plugin share.
 *
 *	process		one in a process: settings, devices, services, the keeper's thread, all connections
 *	device		a network interface that NCCL may use
 *	endpoint	a device under a traffic class: a service, and a port where peers meet this process
 *	listener	from listen(): a token that a peer shows, and connections that are ready to be accepted
 *	meeting		a connection that is being made, at either end
 *	connection	from connect() or accept(): a channel, used in one direction
 *	request		a send or a receive
 *
 * Threads: NCCL calls from several. The keeper makes connections, lets closed ones linger and looks for hangs. Each context of
 * a service has a thread of its own. process.lock guards lists and set-up; a connection's channel and its requests' operations
 * belong to whoever owns the context (<godwit/service.h>). Who holds a context must not take process.lock.
 */
#ifndef PLUGINS_NCCL_STATE_H
#define PLUGINS_NCCL_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <godwit/channel.h>
#include <godwit/rendezvous.h>
#include <godwit/service.h>

#include "calls.h"
#include "mover.h"
#include "settings.h"

#define DEVICES_MAX   16
#define TOKEN_BYTES   16
#define ADDRESS_CHARS 46
#define WHO_CHARS     64
#define NS_PER_SECOND UINT64_C(1000000000)
/* Silence after which the peer's host is asked whether the process exists. */
#define ALIVE_ASK_NS (10 * NS_PER_SECOND)

struct device {
	char name[32];
	/* numeric address */
	char address[ADDRESS_CHARS];
	/* directory under /sys; "" if it is virtual */
	char pci_path[256];
	/* name for gw_context_open() */
	char fabric[96];
	/* port of an RDMA device; 1 for an interface */
	int port;
	/* Mbit/s */
	int speed;
	uint64_t guid;
};

struct endpoint {
	struct endpoint *next;
	const struct device *device;
	uint8_t traffic_class;
	struct gw_service *service;
	struct gw_rendezvous_listener *meets;
	/* connections on each context */
	unsigned connections[THREADS_MAX];
};

/* A communicator, from version 11 on; before that there is one for all. */
struct communicator {
	struct communicator *next;
	uint64_t id;
	int traffic_class;
	/* sums over its connections that were closed */
	struct gw_channel_stats closed;
	uint64_t connections;
	/* as in its connections that were closed */
	uint64_t caller_turns, hand_overs;
	bool finalized;
};

enum request_state { REQUEST_FREE, REQUEST_QUEUED, REQUEST_OPEN, REQUEST_ENDED };

struct request {
	struct connection *connection;
	/* enum request_state; ended: the members below are valid */
	_Atomic int state;
	/* 0 or -errno */
	int status;
	uint64_t told;
	uint8_t *data;
	/* bytes, and the time of posting; the keeper reads both */
	_Atomic uint64_t size, since_ns;
	struct memory *memory;
	struct gw_op *op;
};

/* A registration. */
struct memory {
	struct gw_mr *mr;
};

struct connection {
	struct connection *next;
	struct endpoint *endpoint;
	struct communicator *communicator;
	unsigned index;
	bool sending;
	struct gw_channel *channel;
	/* 0, or why the channel failed */
	_Atomic int status;
	/* who the other end is: rank, host and process, as it says itself */
	char peer[WHO_CHARS];
	char peer_address[ADDRESS_CHARS];
	/* TCP port where the peer was met; 0 at the end that listened */
	uint16_t peer_port;
	/* alive.c: enum question; the keeper's socket to that port, or -1, and since when */
	_Atomic int question;
	int question_fd;
	uint64_t question_ns;
	/* start of the peer's present silence, and when the channel last told of it */
	uint64_t silence_ns, silence_told_ns;
	/* posted requests that the channel has not taken yet: a ring, filled by NCCL's thread, emptied by the context's owner */
	struct request *queue[NCCL_REQUESTS];
	_Atomic unsigned queued, taken;
	struct request request[NCCL_REQUESTS];
	/* of a sender changed by NCCL's thread, of a receiver by the context's owner */
	struct mover mover;
	/* turns of progress by NCCL's thread, and times that the queue was left to the context's thread */
	_Atomic uint64_t caller_turns, hand_overs;
	/* next place to look for a free request */
	unsigned next_request;
	/* hands the queue over when the context is busy */
	struct gw_service_work work;
	_Atomic bool work_posted;
	/* closed by NCCL at this time, and waiting for the peer to close, too; 0: in use */
	uint64_t closed_ns;
	/* age of a request at which the keeper warns next */
	uint64_t warn_ns;
	/* a failed request was told */
	bool complained;
};

struct listener {
	struct listener *next;
	struct endpoint *endpoint;
	struct communicator *communicator;
	uint8_t token[TOKEN_BYTES];
	/* connections that accept() returns */
	struct connection *ready;
};

struct process {
	pthread_mutex_t lock;
	bool begun;
	/* a setting is wrong: listen() says so */
	bool misconfigured;
	/* in a child of fork() nothing works */
	_Atomic bool forked;
	_Atomic(nccl_log_fn *) log;
	struct settings settings;
	struct device device[DEVICES_MAX];
	int devices;
	/* rank, host and process, for peers and messages */
	char who[WHO_CHARS];
	struct communicator *communicators;
	struct endpoint *endpoints;
	struct listener *listeners;
	struct meeting *meetings;
	struct connection *connections;
	struct connection *lingering;
	uint64_t meeting_ids;
	int wake_fd, ask_fd;
	pthread_t keeper;
};

extern struct process process;

/* log.c: lines for NCCL's log. A warning is shown by default, information with NCCL_DEBUG=INFO. */
void say_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Directs the library's own lines there, too. */
void say_begin(nccl_log_fn *log);

/* devices.c: finds the interfaces that `names` selects, NCCL_SOCKET_IFNAME's syntax; if `verbs`, the RDMA devices that answer for
 * their addresses. Returns how many. */
int devices_find(const char *names, bool verbs, struct device *out, int most);

/* rdma.c: changes an interface into the RDMA device that answers for its address. False, and no change: there is none whose port
 * is up. `sysfs` is "/sys" but for tests. */
bool rdma_find(const char *sysfs, struct device *device);

/* endpoint.c: the endpoint of a device under a traffic class, opened when it is first needed. Holds process.lock. */
int endpoint_get(int dev, int traffic_class, struct endpoint **out);

/* meet.c: connections being made. */
void meet_accept(struct endpoint *endpoint);
void meet_step_all(uint64_t now);
/* Adds the descriptors that the keeper waits on; returns how many. */
unsigned meet_fds(int *fds, unsigned most);

/* connection.c */
int connection_create(struct endpoint *endpoint, bool sending, const struct gw_rendezvous *met,
		      const struct gw_seal *seal, struct connection **out);
/* Connects it by the peer's description. */
int connection_join(struct connection *c, const struct gw_channel_info *peer);
void connection_describe(const struct connection *c, struct gw_channel_info *out);
/* Closes the channel: nothing reads or writes the caller's memory any more. The caller owns the context. */
void connection_shut(struct connection *c);
/* Whether all that was sent has been delivered, as far as the peer's answers say. Owns the context for a moment. */
bool connection_is_answered(struct connection *c);
/* Closes the channel and frees the connection. Holds process.lock. */
void connection_free(struct connection *c);
/* Adds it to the process's list. Holds process.lock. */
void connection_enlist(struct connection *c, struct communicator *communicator);

/* request.c */
void requests_open(struct connection *c);
bool requests_are_open(struct connection *c);
/* True if the channel has not taken all of them. */
bool requests_are_queued(struct connection *c);
/* Has the context's owner offer them to the channel. */
void requests_flush_later(struct connection *c);
/* Ends all that are open; the channel is closed, and the caller owns the context. */
void requests_cancel(struct connection *c);

/* keeper.c: the thread that does what takes time. */
int keeper_start(void);
void keeper_wake(void);
uint64_t now_ns(void);

/* alive.c: the time of silence that a channel is to tell; what it is told then, non-zero to go on; what the keeper does, with
 * process.lock; and the end of a question. */
uint64_t alive_ask_ns(void);
int alive_silent(struct connection *c, uint64_t now);
void alive_look(uint64_t now);
void alive_forget(struct connection *c);

/* watch.c: hangs, questions, statistics. Holds process.lock. */
void watch_look(uint64_t now);
size_t watch_describe(char *out, size_t size, uint64_t now);
void watch_statistics(void);
void watch_answer(void);

#endif
