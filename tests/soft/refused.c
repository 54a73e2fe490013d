/*
 * refused.c - a process whose kernel refuses process_vm_*, as a container's seccomp profile may:
 * private memory cannot be registered and the message says what to allow; shared memory still
 * can. Run by `sextant soft run`.
 */
#include "core/compiler.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES  8192
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_pd *pd;

static int refuse_process_vm(void **state)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = SXT_ARRAY_LEN(filter), .filter = filter};

	(void)state;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int set_up(void **state)
{
	struct ibv_device **devices;
	struct ibv_context *context;

	if (refuse_process_vm(state) != 0)
		return -1;
	devices = ibv_get_device_list(NULL);
	if (devices == NULL || devices[0] == NULL)
		return -1;
	context = ibv_open_device(devices[0]);
	ibv_free_device_list(devices);
	pd = context != NULL ? ibv_alloc_pd(context) : NULL;
	return pd == NULL ? -1 : 0;
}

/* What the call writes to standard error. */
static struct ibv_mr *register_and_read(void *memory, char *text, size_t text_bytes)
{
	struct ibv_mr *mr;
	int saved = dup(STDERR_FILENO);
	int fds[2];
	ssize_t got;
	int rc;

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	mr = ibv_reg_mr(pd, memory, BYTES, ACCESS);
	rc = errno;
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
	got = read(fds[0], text, text_bytes - 1);
	text[got > 0 ? got : 0] = '\0';
	close(fds[0]);
	errno = rc;
	return mr;
}

static void private_memory_is_refused_with_the_remedy(void **state)
{
	void *memory = aligned_alloc(4096, BYTES);
	char text[1024];

	(void)state;
	memset(memory, 0, BYTES);
	assert_null(register_and_read(memory, text, sizeof(text)));
	assert_int_equal(errno, EPERM);
	assert_non_null(strstr(text, "process_vm"));
	assert_non_null(strstr(text, "seccomp"));
	free(memory);
}

static void shared_memory_can_still_be_registered(void **state)
{
	int fd = memfd_create("refused", MFD_CLOEXEC);
	char text[1024];
	struct ibv_mr *mr;
	void *memory;

	(void)state;
	assert_int_equal(ftruncate(fd, BYTES), 0);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	mr = register_and_read(memory, text, sizeof(text));
	assert_non_null(mr);
	assert_string_equal(text, "");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(memory, BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(private_memory_is_refused_with_the_remedy),
		cmocka_unit_test(shared_memory_can_still_be_registered),
	};

	return cmocka_run_group_tests_name("refused", tests, set_up, NULL);
}
