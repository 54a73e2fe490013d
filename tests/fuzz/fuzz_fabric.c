/*
 * fuzz_fabric.c - the parser of fabric files: the input is the document.
 */
#include "tests/fuzz/fuzz.h"

#include "ib/soft/fabric.h"

#include <stdlib.h>
#include <string.h>

/* What was accepted is whole: indices stay inside, names are there. */
static void require_consistent(const struct sxt_soft_plan *plan)
{
	const struct sxt_soft_fabric *fabric = plan->fabric;
	uint32_t hca_cnt = 0;
	uint32_t port_cnt = 0;

	FUZZ_REQUIRE(fabric->host_cnt >= 1 && fabric->host_cnt <= SXT_SOFT_HOSTS_MAX);
	for (uint32_t i = 0; i < fabric->host_cnt; i++) {
		FUZZ_REQUIRE(fabric->hosts[i].name[0] != '\0');
		FUZZ_REQUIRE(fabric->hosts[i].first_hca == hca_cnt);
		hca_cnt += fabric->hosts[i].hca_cnt;
	}
	FUZZ_REQUIRE(fabric->hca_cnt == hca_cnt);
	for (uint32_t i = 0; i < hca_cnt; i++) {
		FUZZ_REQUIRE(fabric->hcas[i].pci[0] != '\0');
		FUZZ_REQUIRE(fabric->hcas[i].first_port == port_cnt);
		port_cnt += fabric->hcas[i].port_cnt;
	}
	FUZZ_REQUIRE(fabric->port_cnt == port_cnt);
	for (uint32_t i = 0; i < port_cnt; i++) {
		FUZZ_REQUIRE(fabric->ports[i].gid_cnt >= 1 && fabric->ports[i].pkey_cnt >= 1);
		FUZZ_REQUIRE(fabric->ports[i].rate_mbps > 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sxt_soft_plan plan = {0};
	char why[1024] = "";
	char *text = malloc(bytes + 1);

	if (text == NULL)
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (sxt_soft_plan_parse("f", text, &plan, why, sizeof(why)) == 0)
		require_consistent(&plan);
	else
		FUZZ_REQUIRE(plan.fabric == NULL && strncmp(why, "f:", 2) == 0);
	sxt_soft_plan_fini(&plan);
	free(text);
	return 0;
}
