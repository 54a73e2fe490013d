/*
 * faults.h - every call of this program that may fail: libc's by the linker (--wrap), the verbs'
 * by a table. They are counted and the k-th fails; what they made and nobody gave back is counted
 * too. The clock stands until the test moves it, and a thread is counted but never runs: the test
 * is its own watcher, so that the k-th call is the same one in every run.
 */
#ifndef SXT_TESTS_TORTURE_FAULTS_H
#define SXT_TESTS_TORTURE_FAULTS_H

#include "ib/verbs.h"

#include <stdbool.h>
#include <stdint.h>

/* What is alive of what was made through the calls. */
struct faults_live {
	long blocks; /* of the heap */
	long mappings;
	long threads;
	long libraries;
	long objects; /* of the verbs fake */
	long fds;
	long others; /* 0; a path's own count */
};

/**
 * faults_arm() - count the calling thread's fallible calls from here on and fail one of them.
 * @k: which, from 1; 0 only counts.
 */
void faults_arm(uint32_t k);

/**
 * faults_disarm() - no call fails any more; what was counted stays.
 */
void faults_disarm(void);

/**
 * faults_failed() - the call that was made to fail since faults_arm().
 * @error: NULL, or where the errno that it failed with goes.
 * Return: its name, or NULL if there were fewer calls.
 */
const char *faults_failed(int *error);

/**
 * faults_live() - what is alive now.
 * Return: the counts.
 */
struct faults_live faults_live(void);

/**
 * faults_verbs() - the verbs fake whose calls are counted and fail. Loading any library gives the
 * same.
 * Return: its table, valid for the life of the process.
 */
const struct sxt_verbs *faults_verbs(void);

/**
 * faults_advance() - move the monotonic clock.
 * @ns: by how much.
 */
void faults_advance(uint64_t ns);

/**
 * faults_free_clock() - the monotonic clock is the machine's from here on.
 */
void faults_free_clock(void);

/**
 * faults_new_process() - getpid() answers another number from here on, as after a fork.
 */
void faults_new_process(void);

/**
 * faults_hit() - a call asks whether it is its turn to fail, in the files that stand in for calls.
 * @name: of the call. @error: becomes errno if so. Return: true if it shall fail.
 */
bool faults_hit(const char *name, int error);

/**
 * faults_pause() - calls of the calling thread are not counted while a stand-in works.
 * @on: begin or end; may nest.
 */
void faults_pause(bool on);

#endif
