/* SPDX-License-Identifier: BSD-3-Clause */
/* 64 to 128 hexadecimal digits: a secret can be printed, pasted and compared by eye, and no line end is part of it. */
#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

/* Digits, and room to notice that there are too many. */
#define TEXT_BYTES (2 * SECRET_MAX + 8)

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int parse(const char *text, size_t length, struct secret *out)
{
	while (length > 0 && strchr("\r\n \t", text[length - 1]))
		length--;
	if (length % 2 || length < 2 * SECRET_MIN || length > 2 * SECRET_MAX)
		return -EINVAL;
	for (size_t i = 0; i < length; i += 2) {
		int high = digit(text[i]), low = digit(text[i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out->bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	out->length = length / 2;
	return 0;
}

static int check_file(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return error_set(-errno, "cannot read the secret file %s: %s", path,
				 strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(-EINVAL, "the secret file %s is not a regular file", path);
	if (st.st_mode & 077)
		return error_set(
			-EACCES,
			"the secret file %s can be accessed by others than its owner (mode %04o): run `chmod 600 %s`",
			path, (unsigned)st.st_mode & 07777, path);
	return 0;
}

int secret_read(const char *path, struct secret *out)
{
	struct secret secret = { .length = 0 };
	char text[TEXT_BYTES];
	size_t length = 0;
	ssize_t n = 1;
	int fd, rc;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return error_set(-errno, "cannot read the secret file %s: %s", path,
				 strerror(errno));
	rc = check_file(fd, path);
	while (rc == 0 && n > 0 && length < sizeof(text)) {
		n = read(fd, text + length, sizeof(text) - length);
		if (n > 0)
			length += (size_t)n;
		else if (n < 0)
			rc = error_set(-errno, "cannot read the secret file %s: %s", path,
				       strerror(errno));
	}
	close(fd);
	if (rc == 0 && parse(text, length, &secret))
		rc = error_set(
			-EINVAL,
			"the secret file %s does not hold a secret of 64 to 128 hexadecimal digits: `godwit secret FILE` makes one",
			path);
	if (rc == 0)
		*out = secret;
	explicit_bzero(text, sizeof(text));
	secret_wipe(&secret);
	return rc;
}

void secret_wipe(struct secret *secret)
{
	explicit_bzero(secret, sizeof(*secret));
}
