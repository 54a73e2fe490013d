/*
 * sysfs.h - reading /sys, /proc and /etc below one root (SEXTANT_SYSROOT).
 */
#ifndef SXT_CORE_SYSFS_H
#define SXT_CORE_SYSFS_H

#include "core/compiler.h"

/* Names in a folder, in the order people count: mlx5_2 before mlx5_10. */
struct sxt_names {
	char **list;
	size_t cnt;
};

/**
 * sxt_sysfs_read() - the first line of a small file, without its newline.
 * @root: "/" or a folder that stands for it. @path: absolute, below the root.
 * @out, @out_bytes: text, terminated; written on success only.
 * Path: slow, system calls. Return: 0, -ENAMETOOLONG, or the negative errno of open() or read().
 */
SXT_MUST_CHECK int sxt_sysfs_read(const char *root, const char *path, char *out, size_t out_bytes);

/**
 * sxt_sysfs_real_path() - where a link leads, with the root taken off again.
 * @root: "/" or a folder that stands for it. @path: absolute, below the root.
 * @out, @out_bytes: absolute path below the root; written on success only.
 * Path: slow. Return: 0, -ENAMETOOLONG, or the negative errno of realpath().
 */
SXT_MUST_CHECK int sxt_sysfs_real_path(const char *root, const char *path, char *out,
				       size_t out_bytes);

/**
 * sxt_sysfs_read_all() - a whole file, or the beginning of one that is larger.
 * @root: "/" or a folder that stands for it. @path: absolute, below the root.
 * @out, @out_bytes: the bytes and a zero behind them; written on success only.
 * @len_out: how many bytes there are, at most out_bytes - 1; set on success only.
 * Reads regular files only, so that it never waits for a device or a pipe.
 * Path: slow. Return: 0, -ENAMETOOLONG, -EINVAL when it is no file, or the negative errno of
 * open() or read().
 */
SXT_MUST_CHECK int sxt_sysfs_read_all(const char *root, const char *path, char *out,
				      size_t out_bytes, size_t *len_out);

/**
 * sxt_sysfs_list() - the names in a folder, without "." and "..", at most 65,536.
 * @root: "/" or a folder that stands for it. @path: absolute, below the root.
 * @out: set on success; give back with sxt_names_fini().
 * Path: slow, allocates. Return: 0, -ENAMETOOLONG, -ENOMEM, or the negative errno of opendir().
 */
SXT_MUST_CHECK int sxt_sysfs_list(const char *root, const char *path, struct sxt_names *out);

/**
 * sxt_names_fini() - free a list of names; a zeroed one is fine.
 * @names: empty afterwards.
 */
void sxt_names_fini(struct sxt_names *names);

#endif
