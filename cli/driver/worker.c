/*
 * worker.c - one job at a time on a thread of its own (slow path: once per job).
 */
#include "cli/driver/worker.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *worker_main(void *arg)
{
	struct sxt_drv_worker *worker = arg;
	const uint64_t one = 1;

	pthread_mutex_lock(&worker->lock);
	while (!worker->quit) {
		int result;

		if (worker->job == NULL) {
			pthread_cond_wait(&worker->wake, &worker->lock);
			continue;
		}
		pthread_mutex_unlock(&worker->lock);
		result = worker->job(worker->arg);
		pthread_mutex_lock(&worker->lock);
		worker->job = NULL;
		worker->result = result;
		/* An eventfd only refuses at 2^64 - 1 jobs that nobody has looked at. */
		sxt_ignore(write(worker->done_fd, &one, sizeof(one)));
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

int sxt_drv_worker_start(struct sxt_drv_worker *worker, const char *name)
{
	int rc;

	worker->done_fd = eventfd(0, EFD_CLOEXEC);
	if (worker->done_fd < 0)
		return -errno;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->wake, NULL);
	rc = pthread_create(&worker->thread, NULL, worker_main, worker);
	if (rc != 0)
		goto fail;
	worker->started = true;
	sxt_ignore(pthread_setname_np(worker->thread, name)); /* a name is a comfort */
	return 0;
fail:
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->lock);
	close(worker->done_fd);
	return -rc;
}

void sxt_drv_worker_submit(struct sxt_drv_worker *worker, int (*job)(void *), void *arg)
{
	pthread_mutex_lock(&worker->lock);
	worker->job = job;
	worker->arg = arg;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
}

int sxt_drv_worker_result(struct sxt_drv_worker *worker)
{
	uint64_t cnt;
	int result;

	sxt_ignore(read(worker->done_fd, &cnt, sizeof(cnt))); /* readable, as the contract says */
	pthread_mutex_lock(&worker->lock);
	result = worker->result;
	pthread_mutex_unlock(&worker->lock);
	return result;
}

void sxt_drv_worker_stop(struct sxt_drv_worker *worker)
{
	if (!worker->started)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->quit = true;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
	pthread_join(worker->thread, NULL);
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->lock);
	close(worker->done_fd);
	worker->started = false;
}
