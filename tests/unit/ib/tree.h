/*
 * tree.h - a small tree of /sys and /proc below a folder of its own.
 */
#ifndef SXT_TESTS_UNIT_IB_TREE_H
#define SXT_TESTS_UNIT_IB_TREE_H

#include <stddef.h>

/**
 * tree_open() - an empty tree; there is one at a time.
 * Return: its root, valid until tree_close().
 */
const char *tree_open(void);

/**
 * tree_close() - remove the tree, if there is one.
 */
void tree_close(void);

/**
 * tree_path() - where a path of the tree lies; the folders above it are made.
 * @path: absolute, below the root. @out: written.
 */
void tree_path(const char *path, char out[512]);

/**
 * tree_folder() - make a folder. @path: absolute, below the root.
 */
void tree_folder(const char *path);

/**
 * tree_put() - a file of some bytes, in the place of what was there.
 * @path: absolute, below the root. @bytes, @cnt: what it holds.
 */
void tree_put(const char *path, const void *bytes, size_t cnt);

/**
 * tree_text() - a file that holds a text.
 * @path: absolute, below the root. @text: what it holds.
 */
void tree_text(const char *path, const char *text);

/**
 * tree_link() - a symbolic link.
 * @path: absolute, below the root. @target: where it leads; absolute ones lead below the root.
 */
void tree_link(const char *path, const char *target);

#endif
