/*
 * doctor.h - what the checks of `sextant doctor` share: findings, the machine as read, settings.
 *
 * Everything is read below one root, and what no file tells comes through facts, so that a saved
 * tree says the same as the machine did. One thread, slow path.
 */
#ifndef SXT_CLI_DOCTOR_DOCTOR_H
#define SXT_CLI_DOCTOR_DOCTOR_H

#include "core/compiler.h"
#include "core/pci.h"
#include "core/sysfs.h"

#include <jansson.h>
#include <stdbool.h>

enum sxt_severity {
	SXT_SEVERITY_OK,
	SXT_SEVERITY_INFO,
	SXT_SEVERITY_WARNING,
	SXT_SEVERITY_BROKEN,
};

/* Groups of the report, in its order. ANY is for rows of findings.def that belong to no one. */
enum sxt_theme {
	SXT_THEME_ANY,
	SXT_THEME_LOAD,
	SXT_THEME_DEVICES,
	SXT_THEME_PORTS,
	SXT_THEME_GID,
	SXT_THEME_SPEED,
	SXT_THEME_MTU,
	SXT_THEME_COUNTERS,
	SXT_THEME_QOS,
	SXT_THEME_NETWORK,
	SXT_THEME_PCI,
	SXT_THEME_LIMITS,
	SXT_THEME_GPU,
	SXT_THEME_SETTINGS,
	SXT_THEME_PAIRS, /* of `sextant doctor pairs` only */
	SXT_THEMES_CNT
};

enum sxt_finding_id {
#define SXT_FINDING(name, id, theme, severity, meaning, remedy) SXT_FINDING_##name,
#include "cli/doctor/findings.def"
#undef SXT_FINDING
	SXT_FINDINGS_CNT
};

/* A row of findings.def. */
struct sxt_finding_kind {
	const char *id;
	enum sxt_theme theme;
	enum sxt_severity severity;
	const char *meaning;
	const char *remedy;
};

/* One thing found; texts are printable ASCII, whatever was read. */
struct sxt_finding {
	enum sxt_finding_id id;
	enum sxt_theme theme;
	char object[96];
	char seen[512];
	char expected[192];
};

/* One RDMA device. */
struct sxt_doctor_hca {
	char name[64];
	char driver[32]; /* the kernel's: "mlx5_core", "rdma_rxe"; "" when unknown */
	char uverbs[32]; /* "uverbs0", "" when it has none */
	char vendor[16]; /* PCI ids as sysfs writes them, "" when unknown */
	char device[16];
	int numa_node; /* -1 when unknown */
	bool has_pci;
	struct sxt_pci_path pci;
};

/* One port; numbers are -1 or 0 where the file could not be read. */
struct sxt_doctor_port {
	const struct sxt_doctor_hca *hca;
	unsigned int num;
	char label[80]; /* "mlx5_0:1" */
	char folder[192];
	bool readable;
	bool ethernet;
	int state; /* 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE */
	int phys;  /* 2 Polling, 3 Disabled, 5 LinkUp */
	char state_text[48];
	char rate_text[64];
	uint64_t rate_mbps;
	uint32_t lanes;
	uint32_t lid;
	uint32_t sm_lid;
	char netdev[32]; /* "" when none is told */
	bool netdev_here;
	bool netdev_up;
	uint32_t netdev_mtu;
	bool left_out; /* by NCCL_IB_HCA */
	bool usable;
};

/* One setting and where it was written. */
struct sxt_doctor_setting {
	char *name;
	char *value;
	char *origin; /* "environment", "/etc/nccl.conf:3" */
	bool counts;  /* false where another origin comes first */
};

struct sxt_doctor_settings {
	struct sxt_doctor_setting *list;
	size_t cnt;
};

struct sxt_doctor {
	const char *root;
	const char *since;    /* an earlier tree to compare counters with, or NULL */
	unsigned int watch_s; /* 0: no watching */
	bool software;        /* the root is the tree of a software HCA */
	enum sxt_theme theme; /* the one whose check runs */
	struct sxt_finding *findings;
	size_t findings_cnt;
	size_t findings_room;
	bool out_of_memory;
	struct sxt_doctor_hca *hcas;
	size_t hcas_cnt;
	struct sxt_doctor_port *ports;
	size_t ports_cnt;
	struct sxt_doctor_settings settings;
	char *facts; /* the text of FACTS_FILE, or NULL on the live machine */
};

/* Looks at one theme; what it finds it adds. */
struct sxt_doctor_check {
	enum sxt_theme theme;
	void (*run)(struct sxt_doctor *d);
};

extern const struct sxt_finding_kind sxt_finding_kinds[];
extern const char *const sxt_theme_names[];
extern const char *const sxt_severity_names[];

/**
 * sxt_doctor_add() - add a finding of the theme that is being checked.
 * @d: the doctor; when memory is short it remembers so, and the finding is lost.
 * @id: which one. @object: port, HCA, file, setting it is about.
 * @expected: what would be right, NULL where that says nothing. @fmt: what was seen.
 */
void sxt_doctor_add(struct sxt_doctor *d, enum sxt_finding_id id, const char *object,
		    const char *expected, const char *fmt, ...) SXT_PRINTF(5, 6);

/**
 * sxt_doctor_make_printable() - what was read may hold anything: a terminal and a JSON document get
 * printable ASCII.
 * @text: changed in place.
 */
void sxt_doctor_make_printable(char *text);

/**
 * sxt_doctor_listen() - make findings of what the transport's own functions log as warnings.
 * @d: where they go; NULL sends lines to standard error again. @id, @object: of the findings.
 */
void sxt_doctor_listen(struct sxt_doctor *d, enum sxt_finding_id id, const char *object);

/**
 * sxt_doctor_not_read() - add the finding that a file could not be read.
 * @d: the doctor. @path: below the root. @rc: why, a negative errno.
 */
void sxt_doctor_not_read(struct sxt_doctor *d, const char *path, int rc);

/**
 * sxt_doctor_read() - the first line of a small file whose name is made by printf.
 * @d: says the root. @out, @out_bytes: text, "" on failure, without space at its end.
 * @fmt: path below the root. Return: 0, or a negative errno.
 */
int sxt_doctor_read(const struct sxt_doctor *d, char *out, size_t out_bytes, const char *fmt, ...)
	SXT_PRINTF(4, 5);

/**
 * sxt_doctor_read_u64() - a small file that holds one number and nothing else.
 * @d: says the root. @out: written on success only. @fmt: path below the root.
 * Return: 0, -EINVAL when it is no number, or the negative errno of reading.
 */
int sxt_doctor_read_u64(const struct sxt_doctor *d, uint64_t *out, const char *fmt, ...)
	SXT_PRINTF(3, 4);

/**
 * sxt_doctor_slurp() - a whole text file, at most 1 MiB of it.
 * @d: says the root. @path: below the root. @len_out: bytes, NULL if of no interest.
 * Return: text to free(), zeroed behind its end, or NULL with errno set.
 */
char *sxt_doctor_slurp(const struct sxt_doctor *d, const char *path, size_t *len_out);

/**
 * sxt_doctor_exists() - is there anything of that name?
 * @d: says the root. @fmt: path below the root. Return: true if so.
 */
bool sxt_doctor_exists(const struct sxt_doctor *d, const char *fmt, ...) SXT_PRINTF(2, 3);

/**
 * sxt_doctor_value() - the value of a setting that counts.
 * @d: the doctor. @name: as in the environment. Return: its value, or NULL when it is not set.
 */
const char *sxt_doctor_value(const struct sxt_doctor *d, const char *name);

/**
 * sxt_doctor_load_settings() - environment, ~/.nccl.conf (or NCCL_CONF_FILE) and /etc/nccl.conf.
 * @d: its settings are filled, freed by sxt_doctor_fini(). Lines that are no setting are found.
 */
void sxt_doctor_load_settings(struct sxt_doctor *d);

/**
 * sxt_doctor_load_ports() - list RDMA devices and ports.
 * @d: its hcas and ports are filled, freed by sxt_doctor_fini().
 */
void sxt_doctor_load_ports(struct sxt_doctor *d);

/**
 * sxt_doctor_fact() - what no file tells: from the machine itself, or from a saved tree.
 * @d: the doctor. @key: "shm_bytes", "shm_free_bytes", "open/uverbs0", "ethtool/eth0/NAME".
 * @out, @out_bytes: its text, "" on failure. Return: 0, or -ENODATA when it is not known.
 */
int sxt_doctor_fact(const struct sxt_doctor *d, const char *key, char *out, size_t out_bytes);

/**
 * sxt_doctor_find_library() - where the loader would find a library, as NCCL's dlopen() would.
 * @d: says root and LD_LIBRARY_PATH. @file: with a slash a path, else a name to search for.
 * @out, @out_bytes: path below the root; written on success only.
 * @how_out: what found it, "LD_LIBRARY_PATH" and the like; set on success only.
 * The loader also looks where libnccl.so's own RUNPATH says, which is not known here.
 * Return: 0, or -ENOENT.
 */
int sxt_doctor_find_library(const struct sxt_doctor *d, const char *file, char *out,
			    size_t out_bytes, const char **how_out);

/**
 * sxt_doctor_elf_exports() - which symbols does a shared object define?
 * @d: says the root. @path: below the root.
 * @names, @names_cnt: symbols to look for, at most 32. @mask_out: bit i: names[i] is defined.
 * Return: 0, -ENOEXEC when it is no shared object for the machine that the tree is of, -EBADMSG
 * when it is damaged, or the negative errno of reading.
 */
SXT_MUST_CHECK int sxt_doctor_elf_exports(const struct sxt_doctor *d, const char *path,
					  const char *const *names, size_t names_cnt,
					  uint32_t *mask_out);

/**
 * sxt_doctor_net_file() - the first file that NCCL finds for the network plugin, usable or not.
 * @d: says root and settings. @out, @out_bytes: path below the root; written on success only.
 * Return: 0, or -ENOENT.
 */
int sxt_doctor_net_file(const struct sxt_doctor *d, char *out, size_t out_bytes);

/**
 * sxt_doctor_collect() - `sextant doctor collect`: an archive of what doctor reads.
 * @argc, @argv: its own arguments. @root: default of --root. Return: exit status.
 */
int sxt_doctor_collect(int argc, char **argv, const char *root);

/**
 * sxt_doctor_report() - print all findings, grouped by theme, in 80 columns or as JSON.
 * @d: the doctor, all checks run. @json: as JSON. Return: exit status.
 */
int sxt_doctor_report(const struct sxt_doctor *d, bool json);

/**
 * sxt_doctor_print_theme() - print the findings of one theme, the worst first.
 * @d: the doctor. @theme: which.
 */
void sxt_doctor_print_theme(const struct sxt_doctor *d, enum sxt_theme theme);

/**
 * sxt_doctor_end_text() - end a report for people: how many findings there are of each severity.
 * @d: the doctor. Return: the exit status that goes with the worst of them.
 */
int sxt_doctor_end_text(const struct sxt_doctor *d);

/**
 * sxt_doctor_end_json() - print a document with verdict, counts and findings behind what it has.
 * @d: the doctor. @document: an object, the reference is taken; NULL for lack of memory.
 * Return: the exit status that goes with the worst finding.
 */
int sxt_doctor_end_json(const struct sxt_doctor *d, json_t *document);

/**
 * sxt_doctor_colour() - the beginning of a severity's colour.
 * @severity: which. Return: an escape sequence, "" unless standard output is a terminal.
 */
const char *sxt_doctor_colour(enum sxt_severity severity);

/**
 * sxt_doctor_list() - print the table of findings.
 * @markdown: as it stands in docs/doctor.md. Return: exit status.
 */
int sxt_doctor_list(bool markdown);

/**
 * sxt_doctor_fini() - free everything; a zeroed doctor is fine.
 * @d: unusable afterwards.
 */
void sxt_doctor_fini(struct sxt_doctor *d);

/**
 * sxt_check_load() - what NCCL would load, and why.
 * @d: where findings go.
 */
void sxt_check_load(struct sxt_doctor *d);

/**
 * sxt_check_devices() - verbs library, device nodes, permissions.
 * @d: where findings go.
 */
void sxt_check_devices(struct sxt_doctor *d);

/**
 * sxt_check_ports() - state of each port and whether Sextant would use it.
 * @d: where findings go.
 */
void sxt_check_ports(struct sxt_doctor *d);

/**
 * sxt_doctor_choose_gid() - which address a port would use, and why.
 * @d: where findings go. @port: becomes unusable when it has none.
 */
void sxt_doctor_choose_gid(struct sxt_doctor *d, struct sxt_doctor_port *port);

/**
 * sxt_check_speed() - link and PCI Express speed of each port, NUMA node.
 * @d: where findings go.
 */
void sxt_check_speed(struct sxt_doctor *d);

/**
 * sxt_check_mtu() - MTU of the interfaces below RoCE ports.
 * @d: where findings go.
 */
void sxt_check_mtu(struct sxt_doctor *d);

/**
 * sxt_check_counters() - error counters, and their growth where two times are known.
 * @d: where findings go; with watch_s it waits that long.
 */
void sxt_check_counters(struct sxt_doctor *d);

/**
 * sxt_check_qos() - traffic classes.
 * @d: where findings go.
 */
void sxt_check_qos(struct sxt_doctor *d);

/**
 * sxt_check_network() - several RoCE interfaces in one IP subnet.
 * @d: where findings go.
 */
void sxt_check_network(struct sxt_doctor *d);

/**
 * sxt_check_pci() - ACS and IOMMU.
 * @d: where findings go.
 */
void sxt_check_pci(struct sxt_doctor *d);

/**
 * sxt_check_limits() - locked memory, open files, /dev/shm.
 * @d: where findings go.
 */
void sxt_check_limits(struct sxt_doctor *d);

/**
 * sxt_check_gpu() - GPUDirect RDMA, for information.
 * @d: where findings go.
 */
void sxt_check_gpu(struct sxt_doctor *d);

/**
 * sxt_check_settings() - names, values and origins of NCCL_ and SEXTANT_ settings.
 * @d: where findings go.
 */
void sxt_check_settings(struct sxt_doctor *d);

#endif
