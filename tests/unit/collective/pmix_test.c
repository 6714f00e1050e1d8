/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of PMIx's interface that src/collective/pmix.h declares by itself are those of PMIx's own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pmix.h>

#include "collective/pmix.h"

_Static_assert(sizeof(struct pmix_process) == sizeof(pmix_proc_t), "pmix_proc_t");
_Static_assert(sizeof(((struct pmix_process *)0)->nspace) == sizeof(pmix_nspace_t), "nspace");
_Static_assert(offsetof(struct pmix_process, rank) == offsetof(pmix_proc_t, rank), "rank");
_Static_assert(sizeof(pmix_rank_t) == sizeof(uint32_t), "pmix_rank_t");
_Static_assert(sizeof(struct pmix_text) >= sizeof(pmix_value_t), "pmix_value_t");
_Static_assert(offsetof(struct pmix_text, data) == offsetof(pmix_value_t, data), "data");
_Static_assert(sizeof(pmix_data_type_t) == sizeof(uint16_t), "type");
_Static_assert(sizeof(pmix_scope_t) == sizeof(uint8_t), "scope");
_Static_assert(sizeof(pmix_status_t) == sizeof(int), "status");
_Static_assert((int)PMIX_TYPE_STRING == PMIX_STRING, "PMIX_STRING");
_Static_assert((int)PMIX_SCOPE_GLOBAL == PMIX_GLOBAL, "PMIX_GLOBAL");
_Static_assert((int)PMIX_STATUS_TIMEOUT == PMIX_ERR_TIMEOUT, "PMIX_ERR_TIMEOUT");
_Static_assert((int)PMIX_STATUS_NOT_FOUND == PMIX_ERR_NOT_FOUND, "PMIX_ERR_NOT_FOUND");
_Static_assert(PMIX_SUCCESS == 0, "PMIX_SUCCESS");

/* Calls as pmix.c makes them; a function with other parameters does not compile. */
static void test_functions_have_the_parameters_that_are_used(void **state)
{
	pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;
	pmix_status_t (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize;
	pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = PMIx_Put;
	pmix_status_t (*commit)(void) = PMIx_Commit;
	pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
			     pmix_value_cbfunc_t, void *) = PMIx_Get_nb;

	assert_true(init && finalize && put && commit && get);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_have_the_parameters_that_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
