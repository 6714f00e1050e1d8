/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rendezvous.h: two processes meet over TCP and exchange what they need in order to use a fabric.
 *
 * One end listens, the other connects. Each names its service and its version; ends that do not belong together part with
 * a sentence at both of them. Then the connecting end sends the first message, and either end may send more: descriptions
 * of queue pairs or channels, or whatever the application needs to agree on. No bulk data goes this way.
 *
 *	connecting end				listening end
 *	gw_rendezvous_connect()			gw_rendezvous_listen()
 *						gw_rendezvous_accept()
 *	gw_rendezvous_exchange()		gw_rendezvous_exchange()
 *	gw_rendezvous_close()			gw_rendezvous_close()
 *
 * gw_rendezvous_local() is the address of this host that the connection uses: a fabric opened on it ("roce:ADDRESS") sends
 * its packets along a route that is known to work.
 *
 * With a secret file at both ends the connection is TLS 1.3 with that secret as its pre-shared key (and an ephemeral
 * Diffie-Hellman exchange), so that an end without the secret is refused, and nobody on the path reads or changes what is
 * said. Packets of the fabric are protected with keys from it only (gw_rendezvous_keys(), gw_qp_attr.seal).
 *
 * Every call but gw_rendezvous_refuse() exists in two forms. The plain one blocks, for the attribute's timeout_ns at most.
 * The other (start, step, try_...) never blocks: poll gw_rendezvous_fd() or gw_rendezvous_listener_fd() for reading and call
 * it again when that is readable. The one exception is a host or bind address that is a name and not a number: it is looked
 * up by gw_rendezvous_start() and gw_rendezvous_listen(), which may take time.
 *
 * A handle belongs to one thread at a time. Nothing here raises SIGPIPE.
 */
#ifndef GODWIT_RENDEZVOUS_H
#define GODWIT_RENDEZVOUS_H

#include <godwit/godwit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One connection. */
struct gw_rendezvous;
/* A port on which connections arrive. */
struct gw_rendezvous_listener;

/* Bytes in one message, at most. */
#define GW_RENDEZVOUS_MESSAGE_MAX 4096
/* Characters of a service's name, at most. */
#define GW_RENDEZVOUS_SERVICE_MAX 31

/* The kind of message that gw_rendezvous_exchange() sends. */
#define GW_RENDEZVOUS_DESCRIPTION 4
/* Kinds from here to 65535 are the application's. */
#define GW_RENDEZVOUS_KIND_MIN 16

/* Listener: a free port that the system chooses; gw_rendezvous_listener_port() tells which. */
#define GW_RENDEZVOUS_ANY_PORT 1u

struct gw_rendezvous_attr {
	/* the listening host, a name or an address; null for a listener */
	const char *host;
	/* an address of this host to listen on or to connect from; null: any */
	const char *bind;
	/* TCP port; default 4791 */
	uint16_t port;
	uint16_t reserved16;
	uint32_t flags;
	/* name of this end, printable, such as "godwit send"; default "" */
	const char *service;
	/* name that the other end must have; default: the same as `service` */
	const char *peer_service;
	/* version of what the application says; both ends must have the same */
	uint32_t service_version;
	/* descriptor that ends a blocking call with -EINTR when it is readable; 0: none */
	int interrupt_fd;
	/* file with the secret, see below; null: no secret */
	const char *secret_file;
	/* longest that a blocking call waits, and that a connector waits for its first answer; default 10 s */
	uint64_t timeout_ns;
	/* how long a connection that is refused is tried again, for a listener that is being started; default 1 s */
	uint64_t retry_ns;
	/* listener: a connection was refused or given up, from this address and for this reason; may be null */
	void (*ignored)(void *arg, const char *address, const char *why);
	void *arg;
	/* listener: who may connect, "ADDRESS[/LENGTH]" or several of these with commas between; null: everybody */
	const char *from;
	/* silence of the other host after which a connection fails with -ETIMEDOUT; 0: as the system has it, hours where nothing is
	 * being sent. The kernels ask and answer each other (TCP keepalive, at intervals of whole seconds), so that a process that is
	 * busy or stopped is not taken for dead; unless what it has not read fills its socket, for then it cannot be told. */
	uint64_t silence_ns;
	uint64_t reserved[2];
};

/*
 * The secret file holds 64 to 128 hexadecimal digits (32 to 64 bytes) and an optional line end. It must be a regular file
 * that its owner alone may access (mode 0600 or 0400). `godwit secret FILE` makes one.
 */

/* One message. */
struct gw_rendezvous_message {
	uint32_t kind;
	/* bytes at `data` */
	uint32_t length;
	/* valid until the next call on the same handle */
	const void *data;
};

/* Why the last rendezvous call of this thread failed, in a sentence for a person; "" if none has. */
GW_API const char *gw_rendezvous_error(void);

/* ---- connecting ------------------------------------------------------------------------------------------------ */

/*
 * Connects, and sends this end's name and version. The other end's answer is looked at by the first receive, so that this
 * costs no round trip of its own: errors marked * may also come from there.
 * -EINVAL            a bad attribute
 * -ENOENT            unknown host
 * -EAGAIN            the name server does not answer now
 * -ECONNREFUSED *    nobody listens there, or the other end refused: the sentence says why
 * -ETIMEDOUT *       no answer
 * -EACCES *          the secret file is readable by others, or the two ends' secrets differ
 * -ENOTSUP           a secret was asked for, and the library was built without OpenSSL
 * -EPROTO *          what answers is not a rendezvous
 * -EPROTONOSUPPORT * another version
 * -ECONNRESET *      the other end hung up
 * -EADDRNOTAVAIL     `bind` is not an address of this host
 * -EINTR             a signal, or interrupt_fd
 * or another -errno of the system
 */
GW_API int gw_rendezvous_connect(const struct gw_rendezvous_attr *attr, struct gw_rendezvous **out);

/* Begins to connect. gw_rendezvous_step() goes on with it. */
GW_API int gw_rendezvous_start(const struct gw_rendezvous_attr *attr, struct gw_rendezvous **out);

/*
 * Does what can be done without blocking: goes on connecting, sends what is queued, reads what has come.
 * 1           connected: messages can be sent and received
 * 0           not yet
 * -ECONNRESET the other end has closed, and every message of it was received
 * or what gw_rendezvous_connect() returns.
 */
GW_API int gw_rendezvous_step(struct gw_rendezvous *r);

/* A descriptor that is readable when gw_rendezvous_step() has something to do. It stays the same. */
GW_API int gw_rendezvous_fd(const struct gw_rendezvous *r);

/* Returns the least round-trip time that TCP has measured on the connection, in ns; 0: not known. */
GW_API uint64_t gw_rendezvous_rtt_ns(const struct gw_rendezvous *r);

/* ---- listening ------------------------------------------------------------------------------------------------- */

/*
 * Listens on attr->port, of every address of this host or of attr->bind.
 * -EADDRINUSE, -EACCES (the port, or the secret file), -EADDRNOTAVAIL, -EINVAL, -ENOTSUP, -errno
 */
GW_API int gw_rendezvous_listen(const struct gw_rendezvous_attr *attr,
				struct gw_rendezvous_listener **out);

/*
 * Returns a connection whose other end has shown the right name, version and secret, and whose first message has arrived.
 * Up to 64 connections get there side by side: one that is idle or sends nonsense delays nobody. It is given up after the
 * attribute's timeout_ns, or as soon as another needs its place and no address holds more places than its own, and is told
 * to attr->ignored. timeout_ns may be UINT64_MAX.
 * -ETIMEDOUT, -EINTR, -errno
 */
GW_API int gw_rendezvous_accept(struct gw_rendezvous_listener *listener, uint64_t timeout_ns,
				struct gw_rendezvous **out);

/* The same without blocking. -EAGAIN: nobody yet. */
GW_API int gw_rendezvous_try_accept(struct gw_rendezvous_listener *listener,
				    struct gw_rendezvous **out);

/*
 * Turns away a connection that was accepted: the listener tells the other end why, in up to 240 bytes, and closes the
 * connection when that has hung up, half a second later at most. This never blocks; the listener has to be open and served
 * meanwhile. The handle is gone. Null is allowed for `r`.
 */
GW_API void gw_rendezvous_listener_refuse(struct gw_rendezvous_listener *listener,
					  struct gw_rendezvous *r, const char *why);

GW_API int gw_rendezvous_listener_fd(const struct gw_rendezvous_listener *listener);
GW_API uint16_t gw_rendezvous_listener_port(const struct gw_rendezvous_listener *listener);

/* Closes the port and every connection that was not accepted. Null is allowed. */
GW_API void gw_rendezvous_listener_close(struct gw_rendezvous_listener *listener);

/* ---- messages -------------------------------------------------------------------------------------------------- */

/*
 * Sends a message of `length` bytes. `kind` is GW_RENDEZVOUS_DESCRIPTION or at least GW_RENDEZVOUS_KIND_MIN.
 * -EMSGSIZE  longer than GW_RENDEZVOUS_MESSAGE_MAX
 * -ETIMEDOUT, -EPIPE, -ECONNRESET, -EINTR, -errno
 */
GW_API int gw_rendezvous_send(struct gw_rendezvous *r, uint32_t kind, const void *data,
			      size_t length);

/* Queues a message and sends what the connection takes now; gw_rendezvous_step() sends the rest. -EAGAIN: the queue is
 * full, or gw_rendezvous_step() has not returned 1 yet. */
GW_API int gw_rendezvous_try_send(struct gw_rendezvous *r, uint32_t kind, const void *data,
				  size_t length);

/*
 * Receives the next message.
 * -ECONNREFUSED  the other end refused, at any time: the sentence holds its reason
 * -ECONNRESET    it closed the connection
 * -EPROTO        it sent something that is no message
 * -ETIMEDOUT, -EINTR, -errno, and what is marked * at gw_rendezvous_connect()
 */
GW_API int gw_rendezvous_recv(struct gw_rendezvous *r, struct gw_rendezvous_message *out);

/* The same without blocking. -EAGAIN: none yet. Call it until it says so before polling again. */
GW_API int gw_rendezvous_try_recv(struct gw_rendezvous *r, struct gw_rendezvous_message *out);

/*
 * Sends `length` bytes that describe this end and receives the other end's, of which `size` is the most that fits at
 * `theirs`. Returns their number. A listening end that must read before it can describe itself calls gw_rendezvous_recv()
 * and gw_rendezvous_send() with GW_RENDEZVOUS_DESCRIPTION instead.
 * -EMSGSIZE  the other end's is longer, or this end's is too long
 * -EPROTO    the other end sent something else
 * and what gw_rendezvous_send() and gw_rendezvous_recv() return.
 */
GW_API int gw_rendezvous_exchange(struct gw_rendezvous *r, const void *mine, size_t length,
				  void *theirs, size_t size);

/*
 * Tells the other end why it is turned away, waits until it hangs up, and closes. This may block, for half a second or
 * timeout_ns at most, whichever is less: a connection that is closed with bytes unread is reset, and the reset may overtake
 * the sentence. A listening end that must not block calls gw_rendezvous_listener_refuse(), a connecting one sends its reason
 * as a message of its own and waits for the other end to close.
 */
GW_API void gw_rendezvous_refuse(struct gw_rendezvous *r, const char *why);

/* Children of fork() from now on close their copies of the connection, which would otherwise stay open while one of them lives, also if
 * this process is killed. Returns 0, or -ENOMEM. */
GW_API int gw_rendezvous_leave_children(struct gw_rendezvous *r);

/* Closes the connection. What is queued and not sent is lost. Null is allowed. */
GW_API void gw_rendezvous_close(struct gw_rendezvous *r);

/* Numeric addresses of the two ends, without port: IPv4 as such, also on an IPv6 socket. "" until connected. */
GW_API const char *gw_rendezvous_local(const struct gw_rendezvous *r);
GW_API const char *gw_rendezvous_remote(const struct gw_rendezvous *r);

/* Bytes of a key. */
#define GW_RENDEZVOUS_KEY_BYTES 32

/* A key for each direction between the two ends of a connection. */
struct gw_rendezvous_keys {
	/* key for what this end sends: the other end's `rx` */
	uint8_t tx[GW_RENDEZVOUS_KEY_BYTES];
	/* key for what this end receives: the other end's `tx` */
	uint8_t rx[GW_RENDEZVOUS_KEY_BYTES];
};

/*
 * Derives keys for another transport, such as sealed packets, from a connection with a secret (RFC 8446, section 7.5). Only
 * the two ends of this connection know them, also if the secret becomes known later, and no other connection has the same.
 * `context` is `length` bytes that both ends give alike and that say what the keys are for, such as the number of a queue
 * pair: other bytes give other, independent keys. It may be null if `length` is 0. A connecting end may call this as soon as
 * it is connected, a listening end as soon as it has accepted. The caller overwrites the keys when they are not needed.
 * -ENOTCONN  the connection has no secret, or is not connected
 * -EINVAL    no connection, or `length` is more than GW_RENDEZVOUS_MESSAGE_MAX
 * -EPROTO    OpenSSL failed
 */
GW_API int gw_rendezvous_keys(struct gw_rendezvous *r, const void *context, size_t length,
			      struct gw_rendezvous_keys *out);

/*
 * Derives keys for two ends that hold the same secret and exchange descriptions by means of their own, without a rendezvous.
 * `mine` and `theirs` are the two descriptions; one end's `mine` is the other's `theirs`, byte for byte. Each has to hold at
 * least 128 bits that its end has just drawn at random: they make the keys new, and nobody else's. A description that was
 * changed on its way gives other keys, under which no packet of the peer is taken. Unlike gw_rendezvous_keys(), whoever learns
 * the secret later can derive these keys from the descriptions. (HKDF of RFC 5869 with SHA-512; docs/wire.md has the details.)
 * -EINVAL  no or empty descriptions, the same one twice, or the file holds no secret
 * -EACCES  the secret file is accessible to others, or not to this process
 * -ENOTSUP the library was built without OpenSSL
 * or another -errno of the system. gw_rendezvous_error() has the sentence.
 */
GW_API int gw_rendezvous_secret_keys(const char *secret_file, const void *mine, size_t mine_length,
				     const void *theirs, size_t theirs_length,
				     struct gw_rendezvous_keys *out);

/* gw_version() of the other end; "" until it is known. */
GW_API const char *gw_rendezvous_peer_version(const struct gw_rendezvous *r);

#ifdef __cplusplus
}
#endif
#endif
