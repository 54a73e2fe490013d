/*
 * sysfs.h - reading /sys, /proc and /etc below one root (SEXTANT_SYSROOT).
 */
#ifndef SXT_CORE_SYSFS_H
#define SXT_CORE_SYSFS_H

#include "core/compiler.h"

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

#endif
