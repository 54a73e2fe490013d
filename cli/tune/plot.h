/*
 * plot.h - what the parts of `sextant tune plot` share.
 */
#ifndef SXT_CLI_TUNE_PLOT_H
#define SXT_CLI_TUNE_PLOT_H

#include "cli/tune/fit.h"

/* The points of one collective on one shape, and what is chosen at each. */
struct sxt_plot {
	const struct sxt_fit_point *points; /* by size */
	size_t cnt;
	/* At each point, indices of its times: what the rules choose, or the fastest. */
	struct sxt_plot_choice {
		int8_t algo;
		int8_t proto;
	} * choices;
	const char *rules; /* the file's name; NULL: the fastest is shown */
};

/**
 * sxt_plot_script() - the picture as a script for gnuplot, data included.
 * @plot: what is drawn. @output: the SVG file. @to: where the script goes.
 */
void sxt_plot_script(const struct sxt_plot *plot, const char *output, FILE *to);

#endif
