/*
 * bench_report.c - nccl-tests' table, or one JSON document (rank 0, main thread).
 */
#include "cli/bench.h"
#include "cli/cli.h"

#include "core/config.h"

#include <string.h>

#define QPS_SETTING "NCCL_IB_QPS_PER_CONNECTION"

static int count_hosts(const struct bench_rank_info *infos, int ranks)
{
	int hosts = 0;

	for (int i = 0; i < ranks; i++) {
		int k = 0;

		while (k < i && strcmp(infos[k].host, infos[i].host) != 0)
			k++;
		hosts += k == i;
	}
	return hosts;
}

static json_t *rank_json(const struct bench_rank_info *info, int rank)
{
	return json_pack("{s:i, s:s, s:i, s:s, s:i}", "rank", rank, "host", info->host, "pid",
			 (int)info->pid, "device", info->device, "speed_mbps",
			 (int)info->speed_mbps);
}

static const char *op_name(const struct bench_report *report)
{
	const struct sxt_drv_bench_spec *spec = &report->options->spec;

	return spec->pattern->reduces ? sxt_drv_op_names[spec->op] : "none";
}

/* What is not there in every run. */
static void print_use(const struct bench_options *o)
{
	const char *qps = sxt_env_get(QPS_SETTING);

	if (o->use.comms > 1)
		printf("# %d communicators at once; bandwidths are their sums\n", o->use.comms);
	if (o->use.oob)
		printf("# a further thread of each rank talks beside the data\n");
	if (o->use.ports > 1)
		printf("# %d devices merged\n", o->use.ports);
	if (qps != NULL)
		printf("# " QPS_SETTING "=%s\n", qps);
}

static void print_head(const struct bench_report *report, const struct bench_rank_info *infos)
{
	const struct bench_options *o = report->options;

	printf("# sextant bench " SXT_VERSION ": %s, %s, protocol %s, out-of-place buffers\n",
	       o->spec.pattern->name, o->spec.pattern->algo, o->spec.proto->name);
	printf("# plugin %s, net v%d, %s\n", report->plugin_name, report->abi, report->plugin_file);
	printf("# %d ranks on %d host%s, %d channel%s; %d warm-up, %d timed, %d checked "
	       "iterations\n",
	       report->ranks, report->hosts, report->hosts == 1 ? "" : "s", o->spec.channels,
	       o->spec.channels == 1 ? "" : "s", o->warmups, o->iterations, o->checks);
	print_use(o);
	for (int i = 0; i < report->ranks; i++)
		printf("#   rank %d on %s, process %d, device %s (%g Gb/s)\n", i, infos[i].host,
		       (int)infos[i].pid, infos[i].device, infos[i].speed_mbps / 1000.0);
	printf("#\n#%12s %13s %8s %7s %12s %8s %8s %7s\n", "size", "count", "type", "redop", "time",
	       "algbw", "busbw", "#wrong");
	printf("#%12s %13s %8s %7s %12s %8s %8s %7s\n", "(B)", "(elements)", "", "", "(us)",
	       "(GB/s)", "(GB/s)", "");
	fflush(stdout);
}

void sxt_bench_report_begin(struct bench_report *report, const struct bench_options *options,
			    const struct bench_rank_info *infos, int ranks,
			    const struct sxt_drv_net *net)
{
	memset(report, 0, sizeof(*report));
	report->options = options;
	report->ranks = ranks;
	report->hosts = infos != NULL ? count_hosts(infos, ranks) : options->hosts;
	report->json_ranks = json_array();
	report->json_rows = json_array();
	if (net != NULL) {
		report->plugin_file = net->file;
		report->abi = net->abi;
		snprintf(report->plugin_name, sizeof(report->plugin_name), "%s", net->name);
	}
	for (int i = 0; infos != NULL && i < ranks; i++)
		json_array_append_new(report->json_ranks, rank_json(&infos[i], i));
	if (!options->json && infos != NULL)
		print_head(report, infos);
}

void sxt_bench_report_row(struct bench_report *report, const struct bench_row *row)
{
	const struct sxt_drv_bench_spec *spec = &report->options->spec;
	/* Bytes per microsecond are MB/s. */
	double moved = (double)row->bytes * report->options->use.comms;
	double algbw = row->time_us > 0 ? moved / row->time_us / 1000.0 : 0;
	double busbw = algbw * spec->pattern->bus_factor(report->ranks);
	size_t count =
		sxt_drv_pattern_part(spec->pattern, row->bytes, report->ranks) / spec->type->bytes;
	char wrong[24] = "N/A";

	report->wrong += row->wrong;
	report->busbw_sum += busbw;
	report->rows_cnt++;
	json_array_append_new(report->json_rows,
			      json_pack("{s:I, s:I, s:f, s:f, s:f, s:I}", "size_bytes",
					(json_int_t)row->bytes, "count", (json_int_t)count,
					"time_us", row->time_us, "algbw_gb_per_s", algbw,
					"busbw_gb_per_s", busbw, "wrong", (json_int_t)row->wrong));
	if (report->options->json)
		return;
	if (report->options->checks > 0)
		snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)row->wrong);
	printf("%13zu %13zu %8s %7s %12.2f %8.2f %8.2f %7s\n", row->bytes, count, spec->type->name,
	       op_name(report), row->time_us, algbw, busbw, wrong);
	fflush(stdout);
}

static double average(const struct bench_report *report)
{
	return report->rows_cnt > 0 ? report->busbw_sum / report->rows_cnt : 0;
}

static json_t *plugin_json(const struct bench_report *report)
{
	if (report->plugin_file == NULL)
		return json_null();
	return json_pack("{s:s, s:s, s:i}", "name", report->plugin_name, "file",
			 report->plugin_file, "abi", report->abi);
}

static int end_json(struct bench_report *report, const char *verdict, const char *error)
{
	const struct bench_options *o = report->options;
	const char *qps = sxt_env_get(QPS_SETTING);
	json_t *root =
		json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i}", "schema",
			  "sextant.bench/1", "verdict", verdict, "error",
			  error != NULL ? json_string(error) : json_null(), "plugin",
			  plugin_json(report), "pattern", o->spec.pattern->name, "proto",
			  o->spec.proto->name, "type", o->spec.type->name, "redop", op_name(report),
			  "buffers", "out-of-place", "ranks_cnt", report->ranks, "hosts_cnt",
			  report->hosts, "channels_cnt", o->spec.channels);

	json_object_set_new(root, "algo", json_string(o->spec.pattern->algo));
	json_object_set_new(root, "comms_cnt", json_integer(o->use.comms));
	json_object_set_new(root, "ports_cnt", json_integer(o->use.ports));
	json_object_set_new(root, "qps_per_connection",
			    qps != NULL ? json_string(qps) : json_null());
	json_object_set_new(root, "oob_exchanges",
			    o->use.oob ? json_integer((json_int_t)report->oob_rounds)
				       : json_null());
	json_object_set_new(root, "iterations", json_integer(o->iterations));
	json_object_set_new(root, "checked_iterations", json_integer(o->checks));
	json_object_set(root, "ranks", report->json_ranks);
	json_object_set(root, "results", report->json_rows);
	json_object_set_new(root, "wrong", json_integer((json_int_t)report->wrong));
	json_object_set_new(root, "average_busbw_gb_per_s", json_real(average(report)));
	return sxt_cli_print_json(root);
}

static int end_text(const struct bench_report *report, const char *error)
{
	if (error != NULL)
		printf("# FAILED: %s\n", error);
	else if (report->options->checks == 0)
		printf("# NOT CHECKED: --check is 0\n");
	else
		printf("# %s: %llu wrong\n", report->wrong == 0 ? "OK" : "WRONG DATA",
		       (unsigned long long)report->wrong);
	if (report->options->use.oob)
		printf("# Out of band: %llu exchanges between all ranks\n",
		       (unsigned long long)report->oob_rounds);
	if (error == NULL)
		printf("# Average bus bandwidth: %.3f GB/s\n", average(report));
	return fflush(stdout) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}

int sxt_bench_report_end(struct bench_report *report, const char *error)
{
	const char *verdict = "failed";
	int rc;

	if (error == NULL)
		verdict = report->wrong == 0 ? "ok" : "wrong";
	rc = report->options->json ? end_json(report, verdict, error) : end_text(report, error);
	if (rc == SXT_EXIT_OK && report->wrong > 0)
		rc = SXT_EXIT_FOUND;
	return rc;
}

void sxt_bench_report_fini(struct bench_report *report)
{
	json_decref(report->json_ranks);
	json_decref(report->json_rows);
}
