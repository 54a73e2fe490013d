/*
 * prove.h - an attempt's paths: each over the first pair of addresses on which packets pass both
 * ways. Reaching RTS proves nothing on RoCE, so each end sends a write of no bytes on every path;
 * a path whose write is not acknowledged in time is made anew over the next pair.
 */
#ifndef SXT_IB_PROVE_H
#define SXT_IB_PROVE_H

#include "ib/attempt.h"

/**
 * sxt_prove_look() - the addresses of our own ports, as they are now.
 * @attempt: its own candidates are written. A port without any is left out while another has one.
 * Path: slow. Return: 0, or why there are none (logged); that does not end the attempt.
 */
SXT_MUST_CHECK int sxt_prove_look(struct sxt_attempt *attempt);

/**
 * sxt_prove_offer() - the connecting end's first try on a NIC: every path on its preferred port.
 * @attempt: has its end. Return: 0 or why not (logged).
 */
SXT_MUST_CHECK int sxt_prove_offer(struct sxt_attempt *attempt);

/**
 * sxt_prove_answer() - the accepting end: bring every path to the try the peer is at, and join.
 * @attempt: with the peer's paths. @failed_out: paths that need another port of the peer, a bit
 * each; where it is not 0 nothing was joined.
 * Return: 0 or why not (logged).
 */
SXT_MUST_CHECK int sxt_prove_answer(struct sxt_attempt *attempt, uint64_t *failed_out);

/**
 * sxt_prove_join() - the connecting end: join every path with the peer's.
 * @attempt: answered. Return: 0 or why not (logged).
 */
SXT_MUST_CHECK int sxt_prove_join(struct sxt_attempt *attempt);

/**
 * sxt_prove_retry() - the connecting end: make paths anew, over their next pairs.
 * @attempt: the peer's candidates are known. @failed: which, a bit each.
 * Return: 0, -ENETUNREACH when nothing is left to try here or other ports promise more, or why not
 * (logged).
 */
SXT_MUST_CHECK int sxt_prove_retry(struct sxt_attempt *attempt, uint64_t failed);

/**
 * sxt_prove_tried() - the pairs of the NICs that the attempt is on.
 * @attempt: the peer's candidates are known. @out, @out_bytes: as sxt_pairs_text().
 */
void sxt_prove_tried(const struct sxt_attempt *attempt, char *out, size_t out_bytes);

/**
 * sxt_prove_fail() - no pair of these NICs is of use, and there are no others.
 * @attempt: the peer's candidates are known. Return: -ENETUNREACH (logged).
 */
SXT_COLD int sxt_prove_fail(struct sxt_attempt *attempt);

/**
 * sxt_prove_send() - send a probe on every path that has none yet.
 * @attempt: joined.
 */
void sxt_prove_send(struct sxt_attempt *attempt);

/**
 * sxt_prove_wait() - what became of the probes.
 * @attempt: probes are sent. @failed_out: written with 0: paths that do not carry packets.
 * Return: 0 when every probe has ended, -EAGAIN while one may still come.
 */
SXT_MUST_CHECK int sxt_prove_wait(struct sxt_attempt *attempt, uint64_t *failed_out);

#endif
