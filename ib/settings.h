/*
 * settings.h - what settings come to, in units that a person can judge.
 */
#ifndef SXT_IB_SETTINGS_H
#define SXT_IB_SETTINGS_H

#include "core/config.h"

/**
 * sxt_settings_tell() - log how long a path may stay without an answer, and what a traffic class
 * means; a WARN where the time is too short for any network.
 * @config: settings. Thread: any. Path: slow.
 */
void sxt_settings_tell(const struct sxt_config *config);

#endif
