/*
 * rules.h - a rules file: what to choose, and parameters of the model for what no rule covers.
 *
 * Two formats are read. Sextant's begins with the line "sextant-rules 1"; each further line is
 * blank, a comment ('#'), or `rule` or `model` with key=value words (docs/tuner.md). Any other
 * file is NVIDIA's CSV: coll,min,max,algo,proto,channels,nodes,ranks[,pipe_ops[,reg]], -1 for any.
 * A file with a single wrong line is refused whole: half of a table is another table.
 */
#ifndef SXT_TUNER_RULES_H
#define SXT_TUNER_RULES_H

#include "tuner/words.h"

#include <stdbool.h>
#include <stdint.h>

/* Inclusive; {0, UINT64_MAX} is any. */
struct sxt_range {
	uint64_t min;
	uint64_t max;
};

#define SXT_PIPE_OPS_MAX 1024u /* more are not told apart: rules may name up to this */

/* When a rule or a model applies; `nvls` and the like NCCL itself tells by its cost table. */
struct sxt_when {
	enum sxt_coll coll;
	struct sxt_range bytes;    /* as NCCL counts: all ranks' together for gather and scatter */
	struct sxt_range nodes;    /* of the communicator */
	struct sxt_range ranks;    /* of the communicator */
	struct sxt_range per_node; /* ranks / nodes, rounded up */
	struct sxt_range pipe_ops; /* aggregated operations per channel; see SXT_PIPE_OPS_MAX */
	int8_t reg;                /* registered buffers: 0 without, 1 with, -1 any */
};

struct sxt_rule {
	struct sxt_when when;
	enum sxt_algo algo;
	enum sxt_proto proto;
	uint32_t channels; /* 0 leaves NCCL's choice */
	uint64_t chunk;    /* bytes; 0 leaves NCCL's choice */
	uint32_t line;     /* in the file, from 1 */
	float gain;        /* told by who made it: time saved against NCCL's default; 0 unknown */
	float confidence;  /* told likewise: how sure that it is faster; 0 unknown */
};

/*
 * time_us = base + hops_intra * intra + hops_inter * inter + traffic * bytes / bandwidth, with hops
 * and traffic by model.h. Of one (collective, algorithm, protocol) the first that applies counts.
 */
struct sxt_model {
	struct sxt_when when; /* pipe_ops and reg are any */
	enum sxt_algo algo;
	enum sxt_proto proto;
	float base_us;
	float intra_us; /* per hop within a node */
	float inter_us; /* per hop between nodes */
	float gbs;      /* 10^9 bytes a second: bus bandwidth at large sizes, by this protocol */
	float margin;   /* relative: at least this much faster than NCCL's choice, or that stays */
	float confidence; /* told by who made it; 0 unknown */
	uint32_t line;
};

/* A parsed file. Never changes, so any number of threads may read it. */
struct sxt_rules {
	struct sxt_rule *rules; /* in the file's order: the first that applies wins */
	uint32_t rules_cnt;
	struct sxt_model *models;
	uint32_t models_cnt;
	bool is_csv;
	uint64_t digest; /* FNV-1a of the canonical text and SXT_MODEL_VERSION */
};

#define SXT_RULES_MAX   65536u
#define SXT_MODELS_MAX  4096u
#define SXT_RULES_BYTES (16u << 20)

/* What is wrong with a file. */
struct sxt_rules_fault {
	uint32_t line;   /* from 1; 0: the file as a whole */
	uint32_t column; /* from 1, in bytes; 0: the line as a whole */
	char text[256];  /* the word seen, what is wrong with it, the nearest valid word */
};

/**
 * sxt_rules_parse() - parse the text of a rules file.
 * @text, @bytes: the file, need not be terminated; CRLF and a byte order mark are fine.
 * @out: set on success; give back with sxt_rules_free().
 * @fault: set on -EINVAL and -E2BIG: the first thing that is wrong.
 * Thread: any. Return: 0, -EINVAL, -E2BIG beyond the limits above, -ENOMEM.
 */
SXT_MUST_CHECK int sxt_rules_parse(const char *text, size_t bytes, struct sxt_rules **out,
				   struct sxt_rules_fault *fault);

/**
 * sxt_rules_read() - read and parse a file.
 * @path: the file. @out, @fault: as sxt_rules_parse(); @fault is set on every error.
 * Thread: any. Path: slow. Return: as sxt_rules_parse(), or the system's error.
 */
SXT_MUST_CHECK int sxt_rules_read(const char *path, struct sxt_rules **out,
				  struct sxt_rules_fault *fault);

/** sxt_rules_free() - free them. @rules: NULL is fine. */
void sxt_rules_free(struct sxt_rules *rules);

#define SXT_RULE_LINE_BYTES 512u

/**
 * sxt_rule_write() - a rule as a line of Sextant's format, without the newline; what is any or left
 * to NCCL is left out. sxt_rules_parse() reads it back to the same.
 * @rule: to write. @out: terminated.
 */
void sxt_rule_write(const struct sxt_rule *rule, char out[SXT_RULE_LINE_BYTES]);

/**
 * sxt_model_write() - likewise, of a model.
 * @model: to write. @out: terminated.
 */
void sxt_model_write(const struct sxt_model *model, char out[SXT_RULE_LINE_BYTES]);

/**
 * sxt_bytes_parse() - a size as files and options have it: "4096", "64K", "1M", "8GiB", "inf";
 * suffixes are powers of 1024.
 * @text: the whole word. @out: written on success; UINT64_MAX for "inf" and "-1".
 * Return: 0, -EINVAL, -ERANGE.
 */
SXT_MUST_CHECK int sxt_bytes_parse(const char *text, uint64_t *out);

/** sxt_bytes_write() - the shortest text that sxt_bytes_parse() reads back to the same size. */
void sxt_bytes_write(uint64_t bytes, char out[24]);

#endif
