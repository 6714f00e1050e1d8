/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lets the plugin load with a C library that is older than the one it was built with: 2.28 and later. Since then glibc moved
 * functions of libpthread and libdl into libc and gave others a new version, and a linker takes the newest of each. Here they are
 * defined under their own names, for the plugin alone and for the archives that are linked into it, and call the old
 * version, which newer C libraries still have. An old one has them in the files that meson.build adds to those needed.
 */
#include <features.h>
#include <stdint.h>

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

/* The first version of an architecture has all that is older. */
#ifdef __x86_64__
#define FIRST	 "GLIBC_2.2.5"
#define SINCE(v) "GLIBC_" v
#define STAT	 1
#else
#define FIRST	 "GLIBC_2.17"
#define SINCE(v) FIRST
#define STAT	 0
#endif

/* Types do not matter: all that is not a number of the type given is passed on as a pointer. */
#define OLD(type, name, version, parameters, arguments)                                            \
	type old_##name parameters;                                                                \
	type new_##name parameters __asm__(#name);                                                 \
	__asm__(".symver old_" #name "," #name "@" version);                                       \
	type new_##name parameters                                                                 \
	{                                                                                          \
		return old_##name arguments;                                                       \
	}

OLD(void *, dlopen, FIRST, (void *a, int b), (a, b))
OLD(void *, dlsym, FIRST, (void *a, void *b), (a, b))
OLD(void *, dlerror, FIRST, (void), ())
OLD(int, dlclose, FIRST, (void *a), (a))
OLD(int, dladdr, FIRST, (void *a, void *b), (a, b))

OLD(int, pthread_create, FIRST, (void *a, void *b, void *c, void *d), (a, b, c, d))
OLD(int, pthread_join, FIRST, (unsigned long a, void *b), (a, b))
OLD(int, pthread_once, FIRST, (void *a, void *b), (a, b))
OLD(int, pthread_setname_np, SINCE("2.12"), (unsigned long a, void *b), (a, b))
OLD(int, pthread_sigmask, FIRST, (int a, void *b, void *c), (a, b, c))
OLD(int, pthread_attr_setaffinity_np, SINCE("2.3.4"), (void *a, unsigned long b, void *c),
    (a, b, c))
OLD(int, pthread_condattr_setclock, SINCE("2.3.3"), (void *a, int b), (a, b))
OLD(int, pthread_mutex_trylock, FIRST, (void *a), (a))
OLD(int, pthread_mutexattr_init, FIRST, (void *a), (a))
OLD(int, pthread_mutexattr_destroy, FIRST, (void *a), (a))
OLD(int, pthread_mutexattr_settype, FIRST, (void *a, int b), (a, b))
OLD(int, pthread_rwlock_init, FIRST, (void *a, void *b), (a, b))
OLD(int, pthread_rwlock_destroy, FIRST, (void *a), (a))
OLD(int, pthread_rwlock_rdlock, FIRST, (void *a), (a))
OLD(int, pthread_rwlock_wrlock, FIRST, (void *a), (a))
OLD(int, pthread_rwlock_unlock, FIRST, (void *a), (a))
OLD(int, pthread_key_create, FIRST, (void *a, void *b), (a, b))
OLD(int, pthread_key_delete, FIRST, (unsigned a), (a))
OLD(int, pthread_setspecific, FIRST, (unsigned a, void *b), (a, b))
OLD(void *, pthread_getspecific, FIRST, (unsigned a), (a))

OLD(double, exp, FIRST, (double a), (a))
OLD(double, exp2, FIRST, (double a), (a))
OLD(double, log, FIRST, (double a), (a))
OLD(double, pow, FIRST, (double a, double b), (a, b))

/* Before 2.33 a program passed the version of its struct stat, to functions of other names. */
int old_stat(int version, void *path, void *out);
int old_fstat(int version, int fd, void *out);
__asm__(".symver old_stat,__xstat@" FIRST);
__asm__(".symver old_fstat,__fxstat@" FIRST);

#define STATUS(name, type, old)                                                                    \
	int new_##name(type a, void *out) __asm__(#name);                                          \
	int new_##name(type a, void *out)                                                          \
	{                                                                                          \
		return old(STAT, a, out);                                                          \
	}

STATUS(stat, void *, old_stat)
STATUS(stat64, void *, old_stat)
STATUS(fstat, int, old_fstat)
STATUS(fstat64, int, old_fstat)

#endif
