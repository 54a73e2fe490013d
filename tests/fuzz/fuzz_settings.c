/*
 * fuzz_settings.c - the parser of settings: the first byte chooses the row, the rest is its value.
 */
#include "tests/fuzz/fuzz.h"

#include "core/config.h"

#include <string.h>

/* A refused value leaves the field as it was. */
static void require_untouched(const struct sxt_opt *opt, const struct sxt_config *config)
{
	static const struct sxt_config untouched;
	const char *field = (const char *)config + opt->offset;
	const char *zero = (const char *)&untouched + opt->offset;
	size_t bytes = opt->kind == SXT_OPT_STR ? sizeof(const char *) : sizeof(uint32_t);

	FUZZ_REQUIRE(memcmp(field, zero, bytes) == 0);
}

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
		require_untouched(opt, &config);
		FUZZ_REQUIRE(why[0] != '\0' && strlen(why) < sizeof(why));
	}
	sxt_ignore(sxt_nearest(text, (const char *const[]){"NCCL_IB_HCA", "SEXTANT_STRICT"}, 2) !=
		   NULL);
	return 0;
}
