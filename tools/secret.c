/* SPDX-License-Identifier: BSD-3-Clause */
/* godwit secret: writes a fresh secret for --secret-file. An existing file is left alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/entropy.h"
#include "tools/command.h"
#include "tools/report.h"

#define SECRET_BYTES 32

static int write_secret(struct report *report, const char *path)
{
	char text[2 * SECRET_BYTES + 2];
	uint8_t secret[SECRET_BYTES];
	ssize_t written = -1;
	int fd, rc;

	rc = entropy_fill(secret, sizeof(secret));
	if (rc)
		return report_fail(report, rc, "no entropy: %s", strerror(-rc));
	for (unsigned i = 0; i < SECRET_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", secret[i]);
	memcpy(text + sizeof(text) - 2, "\n", 2);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return report_fail(report, -errno, "cannot write %s: %s", path,
				   errno == EEXIST ? "it exists already" : strerror(errno));
	written = write(fd, text, sizeof(text) - 1);
	rc = written == (ssize_t)sizeof(text) - 1 && fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(text, sizeof(text));
	if (rc == 0)
		return 0;
	unlink(path);
	return report_fail(report, rc, "cannot write %s: %s", path, strerror(-rc));
}

static int run(int argc, char **argv)
{
	struct report report = { .command = argv[0] };

	if (argc < 2)
		report_usage(&report, "which file?");
	else if (argc > 2)
		report_usage(&report, "\"%s\" is one argument too many", argv[2]);
	else if (argv[1][0] == '-' && argv[1][1] != '\0')
		report_usage(&report, "unknown option %s", argv[1]);
	else if (write_secret(&report, argv[1]) == 0)
		snprintf(report.outcome, sizeof(report.outcome),
			 "wrote a secret of 256 bits to %s; copy it to the other hosts", argv[1]);
	return report_finish(&report);
}

const struct command command_secret = {
	.name = "secret",
	.summary = "write a fresh secret, for --secret-file",
	.usage =
		"usage: godwit secret FILE\n"
		"\n"
		"Writes a secret of 256 bits to FILE, which must not exist, as hexadecimal digits that only its\n"
		"owner can read. Copy it to the other hosts, by scp for example, and name it there with\n"
		"--secret-file or in GODWIT_SECRET_FILE: ends that do not hold it are refused.\n",
	.run = run,
};
