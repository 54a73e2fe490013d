/*
 * move.c - memory from here to there: the only place that writes a peer's memory. Hot.
 *
 * Three ways, by where the target lies: this process (plain copies), a shared mapping of the peer
 * that this process maps as well (plain copies, no system call), private memory of the peer (one
 * process_vm_writev). Promise: up to 64 bytes appear whole, the last 8 last; plain copies also
 * appear line by line, so that the last word of a line is never seen before the rest of it
 * (protocols with a flag per line poll it).
 */
#include "ib/soft/objects.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 64u
#define WORD_BYTES 8u

/* Half and quarter of a line, copied by one load and one store where the CPU has such. */
struct __attribute__((packed)) half {
	uint64_t word __attribute__((vector_size(32)));
};
struct __attribute__((packed)) quarter {
	uint64_t word[2];
};

static void store_last(uint8_t *to, const uint8_t *from, size_t bytes)
{
	uint64_t word;

	/* Orders the body before the last word, for whoever polls it with an acquire load. */
	atomic_thread_fence(memory_order_release);
	if (bytes == WORD_BYTES && ((uintptr_t)to & (WORD_BYTES - 1)) == 0) {
		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
		return;
	}
	memcpy(to, from, bytes);
}

/*
 * Lines in ascending order, each with its last part after the rest. Stores stay in order on x86;
 * elsewhere the fence is the barrier a line needs. Measured at memcpy()'s rate with AVX2, at two
 * thirds of it in the second-level cache without; memcpy() itself stores a block's head last.
 */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static size_t copy_lines_avx2(uint8_t *to, const uint8_t *from,
							      size_t bytes)
{
	size_t at = 0;

	for (; at + LINE_BYTES <= bytes; at += LINE_BYTES) {
		struct half a = *(const struct half *)(from + at);
		struct half b = *(const struct half *)(from + at + 32);

		*(struct half *)(to + at) = a;
		atomic_thread_fence(memory_order_release);
		*(struct half *)(to + at + 32) = b;
	}
	return at;
}
#endif

static size_t copy_lines_any(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t at = 0;

	for (; at + LINE_BYTES <= bytes; at += LINE_BYTES) {
		struct quarter a = *(const struct quarter *)(from + at);
		struct quarter b = *(const struct quarter *)(from + at + 16);
		struct quarter c = *(const struct quarter *)(from + at + 32);
		struct quarter d = *(const struct quarter *)(from + at + 48);

		*(struct quarter *)(to + at) = a;
		*(struct quarter *)(to + at + 16) = b;
		*(struct quarter *)(to + at + 32) = c;
		atomic_thread_fence(memory_order_release);
		*(struct quarter *)(to + at + 48) = d;
	}
	return at;
}

static size_t copy_lines(uint8_t *to, const uint8_t *from, size_t bytes)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		return copy_lines_avx2(to, from, bytes);
#endif
	return copy_lines_any(to, from, bytes);
}

/* Everything but the last word, then the last word. */
static void copy_last_word_last(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t tail = bytes < WORD_BYTES ? bytes : WORD_BYTES;
	size_t body = bytes - tail;

	size_t done = 0;

	if (body >= LINE_BYTES)
		done = copy_lines(to, from, body);
	if (body != done)
		memcpy(to + done, from + done, body - done);
	store_last(to + body, from + body, tail);
}

static void copy_pieces(uint8_t *to, const struct iovec *from, uint32_t cnt, size_t bytes)
{
	uint8_t line[LINE_BYTES];
	uint8_t *at = bytes <= LINE_BYTES ? line : to;

	if (cnt == 1) {
		copy_last_word_last(to, from[0].iov_base, bytes);
		return;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		if (from[i].iov_len == 0)
			continue;
		copy_last_word_last(at, from[i].iov_base, from[i].iov_len);
		at += from[i].iov_len;
	}
	if (bytes <= LINE_BYTES)
		copy_last_word_last(to, line, bytes);
}

static uint64_t address_of(const struct sxt_soft_mr_entry *mr, uint64_t iova)
{
	return mr->addr + (iova - mr->iova);
}

/* Where this process sees the memory, or NULL if only the kernel can get there. */
static uint8_t *plain_view(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
			   uint64_t addr)
{
	uint8_t *first;

	if (peer->is_self)
		return (uint8_t *)(uintptr_t)address_of(mr, addr);
	if (mr->kind != SXT_SOFT_MR_FILE)
		return NULL;
	first = sxt_soft_peer_window(peer, mr,
				     atomic_load_explicit(&mr->key, memory_order_relaxed));
	return first == NULL ? NULL : first + (addr - mr->iova);
}

/* process_vm_* moves less than asked only past its limit of 2 GiB or into a hole. */
static int vm_result(ssize_t got, size_t bytes)
{
	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EFAULT;
}

int sxt_soft_move_write(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
			uint64_t addr, const struct iovec *from, uint32_t cnt, size_t bytes)
{
	struct iovec to[2];
	uint8_t *view;
	size_t body;

	if (bytes == 0)
		return 0;
	view = plain_view(peer, mr, addr);
	if (view != NULL) {
		copy_pieces(view, from, cnt, bytes);
		return 0;
	}
	to[0].iov_base = (void *)(uintptr_t)address_of(mr, addr);
	if (bytes <= WORD_BYTES) {
		to[0].iov_len = bytes;
		return vm_result(process_vm_writev(peer->pid, from, cnt, to, 1, 0), bytes);
	}
	/* The kernel copies piece by piece: the last word is one of its own. */
	body = bytes - WORD_BYTES;
	to[0].iov_len = body;
	to[1].iov_base = (uint8_t *)to[0].iov_base + body;
	to[1].iov_len = WORD_BYTES;
	return vm_result(process_vm_writev(peer->pid, from, cnt, to, 2, 0), bytes);
}

int sxt_soft_move_read(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
		       uint64_t addr, const struct iovec *to, uint32_t cnt, size_t bytes)
{
	struct iovec from;
	uint8_t *view;

	if (bytes == 0)
		return 0;
	view = plain_view(peer, mr, addr);
	if (view == NULL) {
		from.iov_base = (void *)(uintptr_t)address_of(mr, addr);
		from.iov_len = bytes;
		return vm_result(process_vm_readv(peer->pid, to, cnt, &from, 1, 0), bytes);
	}
	for (uint32_t i = 0; i < cnt; i++) {
		if (to[i].iov_len == 0)
			continue;
		copy_last_word_last(to[i].iov_base, view, to[i].iov_len);
		view += to[i].iov_len;
	}
	return 0;
}

/* On memory this process sees: the CPU's own atomics, so the owner's CPU may take part. */
static uint64_t atomic_in_place(uint64_t *word, const struct sxt_soft_wr *wr)
{
	uint64_t old = wr->compare_add;

	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return __atomic_fetch_add(word, wr->compare_add, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(word, &old, wr->swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return old;
}

/* On private memory: read, compute, write, under the peer's lock. */
static int atomic_by_copy(struct sxt_soft_peer *peer, uint64_t addr, const struct sxt_soft_wr *wr,
			  uint64_t *old_out)
{
	uint64_t old;
	uint64_t next;
	struct iovec here = {&old, sizeof(old)};
	struct iovec there = {(void *)(uintptr_t)addr, sizeof(old)};
	int rc = vm_result(process_vm_readv(peer->pid, &here, 1, &there, 1, 0), sizeof(old));

	if (rc != 0)
		return rc;
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		next = old + wr->compare_add;
	else
		next = old == wr->compare_add ? wr->swap : old;
	here.iov_base = &next;
	if (next != old)
		rc = vm_result(process_vm_writev(peer->pid, &here, 1, &there, 1, 0), sizeof(old));
	if (rc == 0)
		*old_out = old;
	return rc;
}

int sxt_soft_move_atomic(struct sxt_soft_peer *peer, const struct sxt_soft_mr_entry *mr,
			 uint64_t addr, const struct sxt_soft_wr *wr, uint64_t *old_out)
{
	uint8_t *view = plain_view(peer, mr, addr);
	int rc = 0;

	sxt_soft_shared_lock(&peer->arena->atomics_lock);
	if (view != NULL)
		*old_out = atomic_in_place((uint64_t *)(void *)view, wr);
	else
		rc = atomic_by_copy(peer, address_of(mr, addr), wr, old_out);
	sxt_soft_shared_unlock(&peer->arena->atomics_lock);
	return rc;
}
