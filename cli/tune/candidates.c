/*
 * candidates.c - the models of a rules file that apply to a call.
 */
#include "cli/tune/candidates.h"

const struct sxt_model *sxt_tune_model(const struct sxt_rules *rules, struct sxt_pick pick,
				       enum sxt_coll coll, struct sxt_shape shape, uint64_t bytes)
{
	for (uint32_t i = 0; i < rules->models_cnt; i++) {
		const struct sxt_model *model = &rules->models[i];

		if (model->algo == pick.algo && model->proto == pick.proto &&
		    model->when.coll == coll && bytes >= model->when.bytes.min &&
		    bytes <= model->when.bytes.max && sxt_when_covers(&model->when, shape))
			return model;
	}
	return NULL;
}
