/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * identity.c: the host's own files are written to a temporary file system, mounted over those of the machine one by one, and
 * the temporary file system is then unmounted from its directory: the single files keep it alive. Mounts are private to the
 * host's mount namespace and end with its last process.
 */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/entropy.h"
#include "base/rng.h"
#include "host.h"

/* Where the temporary file system is mounted for a moment; a lab needs /dev/net/tun, so the directory exists. */
#define STAGE "/dev"
/* Seed of machine identities: any constant that other programs are unlikely to use. */
#define MACHINE_SEED UINT64_C(0x676f64776974)

/* Writes the contents of a file as a host sees it. */
typedef void write_file(const struct lab_config *config, unsigned index, FILE *machine, FILE *to);

void identity_name(unsigned index, char name[IDENTITY_NAME_SIZE])
{
	snprintf(name, IDENTITY_NAME_SIZE, "host%u", index);
}

static void write_machine_id(const struct lab_config *config, unsigned index, FILE *machine,
			     FILE *to)
{
	struct rng rng;

	(void)config;
	(void)machine;
	rng_seed(&rng, MACHINE_SEED + index);
	for (unsigned i = 0; i < 2; i++)
		fprintf(to, "%016" PRIx64, rng_u64(&rng));
	fputc('\n', to);
}

/* A random UUID, as the kernel makes them. */
static void write_boot_id(const struct lab_config *config, unsigned index, FILE *machine, FILE *to)
{
	uint8_t id[16] = { 0 };

	(void)config;
	(void)machine;
	if (entropy_fill(id, sizeof(id)))
		id[15] = (uint8_t)index;
	id[6] = (id[6] & 0x0f) | 0x40;
	id[8] = (id[8] & 0x3f) | 0x80;
	for (unsigned i = 0; i < sizeof(id); i++)
		fprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
	fputc('\n', to);
}

/* The names of all hosts, and then what the machine's own file has. */
static void write_hosts(const struct lab_config *config, unsigned index, FILE *machine, FILE *to)
{
	char name[IDENTITY_NAME_SIZE], address[HOST_ADDRESS6_SIZE];
	int byte;

	(void)index;
	for (unsigned i = 0; i < config->hosts; i++) {
		identity_name(i, name);
		host_address(i, address);
		fprintf(to, "%s %s\n", address, name);
		host_address6(i, address);
		fprintf(to, "%s %s\n", address, name);
	}
	while ((byte = getc(machine)) != EOF)
		putc(byte, to);
}

static const struct own_file {
	const char *path;
	write_file *write;
} own_files[] = {
	{ "/etc/machine-id", write_machine_id },
	{ "/proc/sys/kernel/random/boot_id", write_boot_id },
	{ "/etc/hosts", write_hosts },
};

#define OWN_FILES (sizeof(own_files) / sizeof(own_files[0]))

static int fail(char error[LAB_ERROR_SIZE], const char *what)
{
	int code = errno;

	snprintf(error, LAB_ERROR_SIZE, "%s: %s", what, strerror(code));
	return -code;
}

/* Writes the host's file in the stage and mounts it over the one that `machine` has open. Returns 0, or -1 and errno. */
static int replace(const struct lab_config *config, unsigned index, const struct own_file *file,
		   FILE *machine)
{
	char source[64], target[32];
	FILE *to;

	snprintf(source, sizeof(source), STAGE "%s", strrchr(file->path, '/'));
	to = fopen(source, "we");
	if (!to)
		return -1;
	file->write(config, index, machine, to);
	fchmod(fileno(to), S_IRUSR | S_IRGRP | S_IROTH);
	if (fclose(to) != 0)
		return -1;
	snprintf(target, sizeof(target), "/proc/self/fd/%d", fileno(machine));
	return mount(source, target, NULL, MS_BIND, NULL);
}

static int replace_all(const struct lab_config *config, unsigned index, FILE **machine,
		       char error[LAB_ERROR_SIZE])
{
	int rc = 0;

	if (mount("godwit-lab", STAGE, "tmpfs", 0, "mode=755"))
		return fail(error, "cannot mount");
	for (unsigned i = 0; i < OWN_FILES && !rc; i++) {
		if (machine[i] && replace(config, index, &own_files[i], machine[i]))
			rc = fail(error, own_files[i].path);
	}
	umount2(STAGE, MNT_DETACH);
	return rc;
}

/*
 * Mounts a /proc of the lab's process namespace, so that /proc/self is the process that looks. The one of the machine has other
 * process numbers, and CUDA, for one, fails with it. Where part of the machine's /proc is hidden, as in some containers, an
 * ordinary user may not do that; the host then keeps the machine's.
 */
static void mount_processes(void)
{
	(void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

int identity_take(const struct lab_config *config, unsigned index, char error[LAB_ERROR_SIZE])
{
	char name[IDENTITY_NAME_SIZE];
	FILE *machine[OWN_FILES];
	int rc;

	identity_name(index, name);
	/* The name first: it is worth something alone. */
	if (unshare(CLONE_NEWUTS) || sethostname(name, strlen(name)))
		return fail(error, "cannot set the host name");
	if (unshare(CLONE_NEWNS))
		return fail(error, "cannot make a mount namespace");
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return fail(error, "cannot mount");
	mount_processes();
	/* Opened before the stage may hide them. */
	for (unsigned i = 0; i < OWN_FILES; i++)
		machine[i] = fopen(own_files[i].path, "re");
	rc = replace_all(config, index, machine, error);
	for (unsigned i = 0; i < OWN_FILES; i++) {
		if (machine[i])
			fclose(machine[i]);
	}
	return rc;
}
