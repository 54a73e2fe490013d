/*
 * pack.h - a compressed tar archive that files of the machine are copied into.
 */
#ifndef SXT_CLI_DOCTOR_PACK_H
#define SXT_CLI_DOCTOR_PACK_H

#include "cli/doctor/blank.h"
#include "cli/doctor/doctor.h"

struct sxt_pack;

/**
 * sxt_pack_open() - begin an archive.
 * @file: name, or "-" for standard output; a file that exists is refused.
 * @root: what is copied from. @blank: applied to texts, NULL for none; outlives the archive.
 * @out: set on success; end with sxt_pack_close(). Says on standard error what failed.
 * Return: 0 or a negative errno.
 */
SXT_MUST_CHECK int sxt_pack_open(const char *file, const char *root, const struct sxt_blank *blank,
				 struct sxt_pack **out);

/**
 * sxt_pack_close() - end the archive.
 * @pack: NULL is fine. @cnt_out: how many entries it has; set on success only.
 * Return: 0, or the first error of any call on it (told on standard error).
 */
int sxt_pack_close(struct sxt_pack *pack, size_t *cnt_out);

/**
 * sxt_pack_text() - add a file.
 * @pack: the archive. @path: absolute, below the root. @text, @len: its bytes, blanked if asked
 * for.
 */
void sxt_pack_text(struct sxt_pack *pack, const char *path, const char *text, size_t len);

/**
 * sxt_pack_copy() - add what is at a path: a file, a link as a link, a folder without its files.
 * @pack: the archive; a path comes once however often it is added. @path: absolute, below the
 * root; what is not there or cannot be read is left out.
 */
void sxt_pack_copy(struct sxt_pack *pack, const char *path);

/**
 * sxt_pack_folder() - add a folder with its files and links, and folders in it.
 * @pack: the archive. @path: absolute, below the root. @depth: how many folders deep, 0 for only
 * the files.
 */
void sxt_pack_folder(struct sxt_pack *pack, const char *path, unsigned int depth);

#endif
