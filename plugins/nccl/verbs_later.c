/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the place of libibverbs in the plugin, which has to load where that is missing. The library is loaded when a list of
 * devices is asked for; without it, or with one that lacks a function, there is no device and nothing else is called.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

/* The header has macros of these names, which look for newer functions of the device first. */
#undef ibv_query_port
#undef ibv_reg_mr

#define LIBRARY "libibverbs.so.1"

/* Parameters have short names, which the header does not have.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

/* A function: the type of what it returns, its name, its parameters and its arguments. */
#define FUNCTIONS(F)                                                                               \
	F(int, ibv_attach_mcast, (struct ibv_qp * a, const union ibv_gid *b, uint16_t c),          \
	  (a, b, c))                                                                               \
	F(int, ibv_detach_mcast, (struct ibv_qp * a, const union ibv_gid *b, uint16_t c),          \
	  (a, b, c))                                                                               \
	F(int, ibv_close_device, (struct ibv_context * a), (a))                                    \
	F(int, ibv_dealloc_pd, (struct ibv_pd * a), (a))                                           \
	F(int, ibv_dereg_mr, (struct ibv_mr * a), (a))                                             \
	F(int, ibv_destroy_ah, (struct ibv_ah * a), (a))                                           \
	F(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * a), (a))                       \
	F(int, ibv_destroy_cq, (struct ibv_cq * a), (a))                                           \
	F(int, ibv_destroy_qp, (struct ibv_qp * a), (a))                                           \
	F(int, ibv_destroy_srq, (struct ibv_srq * a), (a))                                         \
	F(int, ibv_get_async_event, (struct ibv_context * a, struct ibv_async_event * b), (a, b))  \
	F(int, ibv_get_cq_event, (struct ibv_comp_channel * a, struct ibv_cq * *b, void **c),      \
	  (a, b, c))                                                                               \
	F(int, ibv_modify_qp, (struct ibv_qp * a, struct ibv_qp_attr * b, int c), (a, b, c))       \
	F(int, ibv_query_device, (struct ibv_context * a, struct ibv_device_attr * b), (a, b))     \
	F(int, ibv_query_port,                                                                     \
	  (struct ibv_context * a, uint8_t b, struct _compat_ibv_port_attr * c), (a, b, c))        \
	F(ssize_t, _ibv_query_gid_table,                                                           \
	  (struct ibv_context * a, struct ibv_gid_entry * b, size_t c, uint32_t d, size_t e),      \
	  (a, b, c, d, e))                                                                         \
	F(const char *, ibv_event_type_str, (enum ibv_event_type a), (a))                          \
	F(const char *, ibv_get_device_name, (struct ibv_device * a), (a))                         \
	F(const char *, ibv_wc_status_str, (enum ibv_wc_status a), (a))                            \
	F(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * a, struct ibv_ah_attr * b), (a, b))     \
	F(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * a), (a))       \
	F(struct ibv_context *, ibv_open_device, (struct ibv_device * a), (a))                     \
	F(struct ibv_cq *, ibv_create_cq,                                                          \
	  (struct ibv_context * a, int b, void *c, struct ibv_comp_channel *d, int e),             \
	  (a, b, c, d, e))                                                                         \
	F(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * a, void *b, size_t c, int d),              \
	  (a, b, c, d))                                                                            \
	F(struct ibv_mr *, ibv_reg_mr_iova2,                                                       \
	  (struct ibv_pd * a, void *b, size_t c, uint64_t d, unsigned e), (a, b, c, d, e))         \
	F(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * a), (a))                            \
	F(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * a, struct ibv_qp_init_attr * b),        \
	  (a, b))                                                                                  \
	F(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * a, struct ibv_srq_init_attr * b),     \
	  (a, b))                                                                                  \
	F(void, ibv_ack_async_event, (struct ibv_async_event * a), (a))                            \
	F(void, ibv_ack_cq_events, (struct ibv_cq * a, unsigned b), (a, b))                        \
	F(void, ibv_free_device_list, (struct ibv_device * *a), (a))

/* Names of all of them, and where they are; the last is the list of devices. */
#define NAME(type, name, parameters, arguments)	 #name,
#define INDEX(type, name, parameters, arguments) AT_##name,
static const char *const names[] = { FUNCTIONS(NAME) "ibv_get_device_list" };
enum { FUNCTIONS(INDEX) AT_list, COUNT };
static void *found[COUNT];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
/* Younger than the others, and not needed for memory of the host. */
static void *found_reg_dmabuf_mr;

static void load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return;
	loaded = true;
	for (int i = 0; i < COUNT; i++) {
		found[i] = dlsym(library, names[i]);
		loaded = loaded && found[i];
	}
	found_reg_dmabuf_mr = dlsym(library, "ibv_reg_dmabuf_mr");
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **(*list)(int *count);

	pthread_once(&once, load);
	if (!loaded) {
		if (count)
			*count = 0;
		errno = ENOSYS;
		return NULL;
	}
	*(void **)&list = found[AT_list];
	return list(count);
}

#define FORWARD(type, name, parameters, arguments)                                                 \
	type name parameters                                                                       \
	{                                                                                          \
		type(*there) parameters;                                                           \
                                                                                                   \
		*(void **)&there = found[AT_##name];                                               \
		return there arguments;                                                            \
	}
FUNCTIONS(FORWARD)

#ifdef HAVE_IBV_REG_DMABUF_MR
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	struct ibv_mr *(*there)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);

	*(void **)&there = found_reg_dmabuf_mr;
	if (there)
		return there(pd, offset, length, iova, fd, access);
	errno = EOPNOTSUPP;
	return NULL;
}
#endif
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
