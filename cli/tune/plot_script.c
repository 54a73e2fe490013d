/*
 * plot_script.c - the picture of `sextant tune plot`: time and bus bandwidth by size, one curve
 * for each choice, in colours that people with colour blindness tell apart (Okabe and Ito), with
 * marks and dashes that say the same.
 */
#include "cli/tune/plot.h"

#include "cli/tune/points.h"
#include "cli/tune/tune.h"

#include <math.h>
#include <string.h>

/* The last is for NCCL's choice, and for logs that forced a protocol alone. */
static const char *const colours[SXT_ALGOS + 1] = {"#D55E00", "#0072B2", "#CC79A7", "#E69F00",
						   "#009E73", "#56B4E9", "#8A7B00", "#000000"};
static const int dashes[SXT_PROTOS + 1] = {3, 2, 1, 1};
static const int marks[SXT_PROTOS + 1] = {8, 4, 7, 1};

static bool has_curve(const struct sxt_plot *plot, int algo, int proto)
{
	for (size_t i = 0; i < plot->cnt; i++) {
		if (plot->points[i].times[algo][proto].cnt > 0)
			return true;
	}
	return false;
}

static double bus_bandwidth(const struct sxt_fit_point *point, double us)
{
	return (double)point->bytes / us / 1000 * sxt_bus_factor(point->coll, point->shape.ranks);
}

static void print_row(const struct sxt_fit_point *point, const struct sxt_fit_time *time, FILE *to)
{
	if (time->cnt > 0 && point->bytes > 0)
		fprintf(to, "%llu %.6g %.6g\n", (unsigned long long)point->bytes, time->us,
			bus_bandwidth(point, time->us));
}

static void print_data(const struct sxt_plot *plot, FILE *to)
{
	for (int algo = 0; algo <= SXT_ALGOS; algo++) {
		for (int proto = 0; proto <= SXT_PROTOS; proto++) {
			if (!has_curve(plot, algo, proto))
				continue;
			fprintf(to, "$c%d_%d << EOD\n", algo, proto);
			for (size_t i = 0; i < plot->cnt; i++)
				print_row(&plot->points[i], &plot->points[i].times[algo][proto],
					  to);
			fputs("EOD\n", to);
		}
	}
	fputs("$chosen << EOD\n", to);
	for (size_t i = 0; i < plot->cnt; i++) {
		const struct sxt_plot_choice *choice = &plot->choices[i];

		if (choice->algo >= 0)
			print_row(&plot->points[i],
				  &plot->points[i].times[choice->algo][choice->proto], to);
	}
	fputs("EOD\n", to);
}

/* Whole decades, with a little below: gnuplot leaves out a tick on the very edge. */
static void print_time_range(const struct sxt_plot *plot, FILE *to)
{
	double low = INFINITY;
	double high = 0;

	for (size_t i = 0; i < plot->cnt; i++) {
		const struct sxt_fit_time *times = &plot->points[i].times[0][0];

		for (size_t k = 0; k < (SXT_ALGOS + 1) * (SXT_PROTOS + 1); k++) {
			if (times[k].cnt == 0)
				continue;
			low = fmin(low, times[k].us);
			high = fmax(high, times[k].us);
		}
	}
	fprintf(to, "set yrange [%g:%g]\n", pow(10, floor(log10(low))) * 0.99,
		pow(10, ceil(log10(high))) * 1.01);
}

/* At most so many sizes are written below a panel. */
#define TICKS_MAX 8

static void print_ticks(const struct sxt_plot *plot, FILE *to)
{
	const uint64_t first = plot->points[0].bytes;
	const uint64_t last = plot->points[plot->cnt - 1].bytes;
	unsigned int low = (unsigned int)log2((double)first);
	unsigned int step = (unsigned int)log2((double)last / (double)first) / TICKS_MAX + 1;
	const char *between = "";

	fputs("set xtics (", to);
	for (unsigned int bit = low; bit < 64 && UINT64_C(1) << bit <= last; bit += step) {
		char text[24];

		sxt_bytes_write(UINT64_C(1) << bit, text);
		fprintf(to, "%s\"%s\" %llu", between, text, 1ull << bit);
		between = ", ";
	}
	fputs(")\n", to);
	fprintf(to, "set xrange [%llu:%llu]\n", (unsigned long long)(first - first / 4),
		(unsigned long long)(last + last / 4));
}

static bool changes(const struct sxt_plot *plot, size_t i)
{
	const struct sxt_plot_choice *choice = &plot->choices[i];

	return choice->algo != choice[-1].algo || choice->proto != choice[-1].proto;
}

/* A line at the first size of each other choice. */
static void print_crossovers(const struct sxt_plot *plot, FILE *to)
{
	for (size_t i = 1; i < plot->cnt; i++) {
		unsigned long long bytes = (unsigned long long)plot->points[i].bytes;
		char text[24];

		if (!changes(plot, i))
			continue;
		sxt_bytes_write(plot->points[i].bytes, text);
		fprintf(to,
			"set arrow from first %llu, graph 0 to first %llu, graph 1 nohead "
			"lc rgb '#777777' dt 4\n"
			"set label '%s' at first %llu, graph 1.03 center tc rgb '#555555' "
			"font ',11'\n",
			bytes, bytes, text, bytes);
	}
}

/* @column: 2 time, 3 bus bandwidth. */
static void print_curves(const struct sxt_plot *plot, int column, FILE *to)
{
	char name[32];

	fprintf(to,
		"plot $chosen using 1:%d with linespoints lw 11 pt 7 ps 0.9 lc rgb '#F2DC7E' "
		"title '%s'",
		column, plot->rules != NULL ? "chosen by the rules" : "fastest (3 % counts)");
	for (int algo = 0; algo <= SXT_ALGOS; algo++) {
		for (int proto = 0; proto <= SXT_PROTOS; proto++) {
			bool own = algo == SXT_FIT_ANY_ALGO && proto == SXT_FIT_ANY_PROTO;

			if (!has_curve(plot, algo, proto))
				continue;
			sxt_tune_choice_name(algo, proto, name);
			fprintf(to,
				", \\\n     $c%d_%d using 1:%d with linespoints lw %s lc rgb '%s' "
				"dt %d pt %d ps %s title \"%s\"",
				algo, proto, column, own ? "2.2" : "1.6", colours[algo],
				own ? 5 : dashes[proto], marks[proto], own ? "0.7" : "0.6", name);
		}
	}
	fputc('\n', to);
}

void sxt_plot_script(const struct sxt_plot *plot, const char *output, FILE *to)
{
	const struct sxt_fit_point *first = &plot->points[0];

	print_data(plot, to);
	fputs("set terminal svg size 940,480 dynamic noenhanced font 'sans-serif,13' "
	      "background '#ffffff' linewidth 1\n"
	      "set output '",
	      to);
	for (const char *c = output; *c != '\0'; c++)
		fprintf(to, "%s%c", *c == '\'' ? "'" : "", *c);
	fprintf(to,
		"'\n"
		"set encoding utf8\n"
		"set multiplot layout 1,2 title '%s, %u node%s, %u ranks' font ',15'\n"
		"set logscale xy\n"
		"set grid lc rgb '#DDDDDD' lt 1\n"
		"set border 3 lc rgb '#555555'\n"
		"set tics nomirror\n"
		"set xlabel 'size (bytes)'\n",
		sxt_coll_names[first->coll], first->shape.nodes, first->shape.nodes == 1 ? "" : "s",
		first->shape.ranks);
	print_ticks(plot, to);
	print_crossovers(plot, to);
	fputs("set key top left reverse Left samplen 3 spacing 1.1\n"
	      "set ylabel 'time'\n"
	      "set ytics ('0.1 us' 0.1, '1 us' 1, '10 us' 10, '100 us' 100, '1 ms' 1e3, '10 ms' "
	      "1e4, "
	      "'100 ms' 1e5, '1 s' 1e6, '10 s' 1e7, '100 s' 1e8)\n",
	      to);
	print_time_range(plot, to);
	print_curves(plot, 2, to);
	fprintf(to,
		"set key off\nset yrange [*:*]\nset ytics autofreq format '%%g'\n"
		"set ylabel 'busbw = size / time%s (GB/s)'\n",
		sxt_tune_bus_formula(first->coll));
	print_curves(plot, 3, to);
	fputs("unset multiplot\n", to);
}
