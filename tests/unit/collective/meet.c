/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet: the smallest program of many ranks. Finds out through the launcher who it is, meets the others, writes a letter to all,
 * and prints whom it heard of.
 *
 *	meet [--stay | --chat] [--fork] [--die RANK] [--timeout SECONDS] [--meet SECONDS]
 *
 * With --stay it waits for a loss and prints that, with --chat it writes letters meanwhile. Rank RANK kills itself after everybody
 * has written, and with --fork every rank has a child that ends. The last line that a process
 * prints is one sentence, and its status is 1 if that is an error.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collective/hub.h"
#include "collective/launcher.h"

#define NS_PER_SECOND UINT64_C(1000000000)

struct news {
	uint32_t letters;
	uint32_t losses;
};

static void letter(void *arg, uint32_t from, const void *data, size_t length)
{
	struct news *news = arg;

	if (length == sizeof(from) && memcmp(data, &from, length) == 0)
		news->letters++;
}

static void lost(void *arg, uint32_t rank, const char *why)
{
	struct news *news = arg;

	news->losses++;
	printf("lost %u: %s\n", rank, why);
	fflush(stdout);
}

static void left(void *arg, uint32_t rank)
{
	(void)arg;
	(void)rank;
}

static void turn(struct mail *mail)
{
	struct pollfd fd = { .fd = mail->ops->fd(mail), .events = POLLIN };

	poll(&fd, 1, 100);
	mail->ops->progress(mail, clock_now_ns());
}

/* A child that does nothing and calls exit(), as multiprocessing's do. False: it has not ended after 10 s. */
static bool child_ends(void)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	pid_t child = fork();

	if (child == 0)
		exit(0);
	for (int i = 0; i < 1000; i++) {
		if (waitpid(child, NULL, WNOHANG) == child)
			return true;
		nanosleep(&pause, NULL);
	}
	kill(child, SIGKILL);
	return false;
}

int main(int argc, char **argv)
{
	static const struct mail_handler handler = { .letter = letter, .lost = lost, .left = left };
	uint64_t peer_timeout_ns = 10 * NS_PER_SECOND, meet_ns = 20 * NS_PER_SECOND;
	long die = -1, stay = 0, chat = 0, forks = 0;
	struct news news = { 0 };
	char why[HUB_WHY];
	struct launcher found;
	struct mail *mail;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--stay") == 0)
			stay = 1;
		else if (strcmp(argv[i], "--fork") == 0)
			forks = 1;
		else if (strcmp(argv[i], "--chat") == 0)
			stay = chat = 1;
		else if (i + 1 < argc && strcmp(argv[i], "--die") == 0)
			die = atol(argv[++i]);
		else if (i + 1 < argc && strcmp(argv[i], "--timeout") == 0)
			peer_timeout_ns = (uint64_t)atol(argv[++i]) * NS_PER_SECOND;
		else if (i + 1 < argc && strcmp(argv[i], "--meet") == 0)
			meet_ns = (uint64_t)atol(argv[++i]) * NS_PER_SECOND;
		else
			return 2;
	}
	if (launcher_read(meet_ns, why, &found)) {
		printf("%s\n", why);
		return 1;
	}
	struct hub_attr attr = { .rank = found.rank,
				 .size = found.size,
				 .root = found.root,
				 .port = found.port,
				 .meet_ns = meet_ns,
				 .peer_timeout_ns = peer_timeout_ns };

	if (hub_open(&attr, &handler, &news, why, &mail)) {
		printf("%s\n", why);
		return 1;
	}
	mail->ops->send(mail, MAIL_ALL, &found.rank, sizeof(found.rank));
	while (news.letters < found.size - 1 && !news.losses)
		turn(mail);
	printf("rank %u of %u, local %d, by %s, at %s, heard of %u\n", found.rank, found.size,
	       (int)found.local_rank, found.name, mail->ops->address(mail, found.rank),
	       news.letters);
	fflush(stdout);
	if (forks && !child_ends()) {
		printf("a child does not end\n");
		return 1;
	}
	if (die == (long)found.rank)
		raise(SIGKILL);
	while (stay && !news.losses) {
		if (chat)
			mail->ops->send(mail, MAIL_ALL, &found.rank, sizeof(found.rank));
		turn(mail);
	}
	mail->ops->close(mail);
	return news.losses > 0;
}
