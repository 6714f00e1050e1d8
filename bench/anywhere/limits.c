/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits: preloaded into a program, gives its sockets the buffers that an ordinary user has where net.core.rmem_max and
 * wmem_max are RMEM_MAX, as on most machines. The real limits hold for the whole machine, in every network namespace, and
 * are not a test's to change.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

#define RMEM_MAX 212992

typedef int setsockopt_function(int fd, int level, int name, const void *value, socklen_t length);

__attribute__((visibility("default"))) int setsockopt(int fd, int level, int name,
						      const void *value, socklen_t length)
{
	static setsockopt_function *real;
	int bytes = RMEM_MAX;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "setsockopt");
	if (level == SOL_SOCKET && (name == SO_RCVBUFFORCE || name == SO_SNDBUFFORCE)) {
		errno = EPERM;
		return -1;
	}
	if (level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF) &&
	    length == sizeof(bytes) && *(const int *)value > RMEM_MAX)
		return real(fd, level, name, &bytes, sizeof(bytes));
	return real(fd, level, name, value, length);
}
