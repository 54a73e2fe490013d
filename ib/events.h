/*
 * events.h - the HCAs' asynchronous events: what each kind means for whom.
 */
#ifndef SXT_IB_EVENTS_H
#define SXT_IB_EVENTS_H

#include "ib/port.h"
#include "ib/watcher.h"

/**
 * sxt_events_drain() - take the events that wait at an HCA, act on each and acknowledge it.
 * @watcher: whose connections hear of them; the caller holds its lock. @device: an open HCA whose
 * descriptor does not block.
 * Thread: the watcher. Path: slow. Return: 0 when none is left or many were taken, else the
 * negative errno of reading one.
 */
SXT_MUST_CHECK int sxt_events_drain(struct sxt_watcher *watcher, struct sxt_device *device);

#endif
