/*
 * bench.h - what the parts of `sextant bench` share: its options and its report.
 */
#ifndef SXT_CLI_BENCH_H
#define SXT_CLI_BENCH_H

#include "cli/driver/launch.h"
#include "cli/driver/session.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct bench_options {
	struct sxt_drv_bench_spec spec; /* group 0: by the devices */
	const char *algo;               /* as given; NULL: the pattern's first */
	size_t min_bytes;
	size_t max_bytes;
	size_t step_bytes; /* 0: multiply */
	unsigned int factor;
	int iterations;
	int warmups;
	int checks;
	const char *reconnect;  /* between sizes: a command or "" before; NULL: no */
	struct sxt_drv_use use; /* but for local_rank */
	int ranks;              /* 0: a launcher's environment */
	int hosts;
	const char *debug;
	bool json;
	unsigned int timeout_s;
	unsigned int stall_s;
};

/* What each rank tells about itself. */
struct bench_rank_info {
	char host[96]; /* with the number of the pretended host, if there are several */
	char device[96];
	int32_t speed_mbps;
	int32_t pid;
	int32_t abi;
	int32_t max_recvs;
	uint32_t options_hash; /* of those that all ranks must have alike */
};

/* One size's result, over all ranks. */
struct bench_row {
	size_t bytes;
	double time_us; /* of one operation: the slowest rank's mean */
	uint64_t wrong; /* elements, over all ranks and checked iterations */
};

/* Rank 0's report; every call is for rank 0 only. */
struct bench_report {
	const struct bench_options *options;
	int ranks;
	int hosts;
	json_t *json_ranks;
	json_t *json_rows;
	const char *plugin_file;
	char plugin_name[64];
	int abi;
	uint64_t wrong;
	uint64_t oob_rounds; /* of this rank */
	double busbw_sum;
	int rows_cnt;
};

/**
 * sxt_bench_parse() - the command line. Ends the process on --help and on usage errors, as argp
 * does.
 * @out: defaults, then what was given.
 */
void sxt_bench_parse(int argc, char **argv, struct bench_options *out);

/**
 * sxt_bench_report_begin() - head of the table.
 * @infos: one per rank, NULL when the run failed before they met. @net: names the plugin, or NULL.
 */
void sxt_bench_report_begin(struct bench_report *report, const struct bench_options *options,
			    const struct bench_rank_info *infos, int ranks,
			    const struct sxt_drv_net *net);

/**
 * sxt_bench_report_row() - one line of the table.
 */
void sxt_bench_report_row(struct bench_report *report, const struct bench_row *row);

/**
 * sxt_bench_report_end() - verdict, or the whole JSON document.
 * @error: why the run failed, or NULL. Return: enum sxt_exit for the data and the output.
 */
int sxt_bench_report_end(struct bench_report *report, const char *error);

/**
 * sxt_bench_report_fini() - free what the report holds; a zeroed one is fine.
 */
void sxt_bench_report_fini(struct bench_report *report);

#endif
