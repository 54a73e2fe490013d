/*
 * fuzz_settings.c - the parser of settings: the first byte chooses the row, the rest is its value.
 */
#include "tests/fuzz/fuzz.h"

#include "core/config.h"

#include <string.h>

static void require_round_trip(const struct sxt_opt *opt, const struct sxt_config *config)
{
	struct sxt_config again = {0};
	char text[8192];
	char same[8192];
	char why[256];

	sxt_opt_format(opt, config, text, sizeof(text));
	FUZZ_REQUIRE(sxt_opt_parse(opt, text, &again, why, sizeof(why)) == 0);
	sxt_opt_format(opt, &again, same, sizeof(same));
	FUZZ_REQUIRE(strcmp(text, same) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct sxt_config untouched;
	struct sxt_config config = {0};
	char text[4200];
	char why[256] = "";
	const struct sxt_opt *opt;

	if (bytes < 1 || bytes > sizeof(text))
		return 0;
	opt = &sxt_opts[data[0] % sxt_opts_cnt];
	memcpy(text, data + 1, bytes - 1);
	text[bytes - 1] = '\0';
	if (sxt_opt_parse(opt, text, &config, why, sizeof(why)) == 0) {
		require_round_trip(opt, &config);
	} else {
		FUZZ_REQUIRE(memcmp(&config, &untouched, sizeof(config)) == 0);
		FUZZ_REQUIRE(why[0] != '\0' && strlen(why) < sizeof(why));
	}
	sxt_ignore(sxt_nearest(text, (const char *const[]){"NCCL_IB_HCA", "SEXTANT_STRICT"}, 2) !=
		   NULL);
	return 0;
}
