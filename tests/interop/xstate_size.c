/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints how many bytes of vector and other extended registers a process has on this machine, as ptrace(2) counts them.
 * User-mode Linux switches them between its processes, and the host accepts all of them or none: a witness kernel that was
 * built for another size panics when it starts its first process.
 */
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	static char registers[1 << 16];
	struct iovec all = { .iov_base = registers, .iov_len = sizeof(registers) };
	pid_t child = fork();
	long rc;

	if (child < 0)
		return 1;
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(child, NULL, 0) != child)
		return 1;
	rc = ptrace(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &all);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (rc)
		return 1;
	printf("%zu\n", all.iov_len);
	return 0;
}
