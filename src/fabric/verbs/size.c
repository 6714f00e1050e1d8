/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many requests queues hold. Receive requests of a UC lane need no memory, so that there are many: a link of 100 Gbit/s
 * delivers 4096 packets of 4096 bytes in 1.3 ms, longer than a polling thread is away. Those of a UD lane hold a packet
 * each.
 */
#include "fabric/verbs/size.h"

#define UC_RECEIVES	 4096u
#define UD_RECEIVES	 1024u
#define SENDS		 512u
#define CONTROL_RECEIVES 64u
#define CONTROL_SENDS	 64u
#define BINDS		 256u
/* Entries of a completion queue: soft-RoCE's limit, with room for several queue pairs. */
#define SHARED_CQ      32767u
#define SHARED_DATA    8192u
#define SHARED_CONTROL 1024u
#define SMALLEST       16u
#define PATH_MTU_MIN   256u
#define PATH_MTU_MAX   4096u

static uint32_t capped(uint32_t wanted, uint32_t most)
{
	return wanted < most ? wanted : most;
}

uint32_t sizes_common(const struct sizes *sizes)
{
	return sizes->shared_data + sizes->shared_control;
}

static bool fits(const struct sizes *sizes)
{
	return sizes_completions(sizes, 1, false) + sizes_common(sizes) <= sizes->cq;
}

void sizes_choose(const struct size_limits *limits, bool shared, struct sizes *out)
{
	uint32_t wr = limits->max_qp_wr < SMALLEST ? SMALLEST : limits->max_qp_wr;
	uint32_t cqe = limits->max_cqe;

	out->sends = capped(SENDS, wr);
	out->control_receives = capped(CONTROL_RECEIVES, wr);
	out->control_sends = capped(CONTROL_SENDS, wr);
	out->binds = capped(BINDS, wr);
	out->cq = capped(SHARED_CQ, cqe);
	/* One queue pair with one lane has to fit at least. */
	out->uc_receives = capped(UC_RECEIVES, wr);
	out->shared_data = shared ? capped(SHARED_DATA, limits->max_srq_wr) : 0;
	out->shared_control = shared ? capped(SHARED_CONTROL, limits->max_srq_wr) : 0;
	while (shared && !fits(out) && out->shared_data > SMALLEST) {
		out->shared_data /= 2;
		out->shared_control = capped(out->shared_control, out->shared_data);
	}
	while (!fits(out) && out->uc_receives > SMALLEST)
		out->uc_receives /= 2;
	out->ud_receives = capped(UD_RECEIVES, out->uc_receives);
}

uint32_t sizes_completions(const struct sizes *sizes, unsigned lanes, bool ud)
{
	uint32_t receives = ud ? sizes->ud_receives : sizes->uc_receives;

	if (sizes->shared_data)
		return lanes * sizes->sends + sizes->control_sends;
	return lanes * (receives + sizes->sends) + sizes->control_receives + sizes->control_sends;
}

uint32_t size_path_mtu(uint32_t payload)
{
	uint32_t mtu = PATH_MTU_MIN;

	while (mtu < payload && mtu < PATH_MTU_MAX)
		mtu *= 2;
	return mtu >= payload ? mtu : 0;
}

uint64_t size_port_rate_bps(uint8_t speed, uint8_t width)
{
	/* A bit each: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR. */
	static const uint32_t megabits[8] = {
		2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000
	};
	/* Likewise: 1, 4, 8, 12 and 2 lanes. */
	static const uint8_t lanes[5] = { 1, 4, 8, 12, 2 };
	uint64_t rate_bps = 0;

	for (unsigned i = 0; i < 8; i++)
		if (speed == 1u << i)
			rate_bps = UINT64_C(1000000) * megabits[i];
	for (unsigned i = 0; i < 5; i++)
		if (width == 1u << i)
			return rate_bps * lanes[i];
	return 0;
}
