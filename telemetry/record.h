/*
 * record.h - copying records into and out of a segment that others read and write meanwhile.
 *
 * Words are stored with release and loaded with acquire: a reader that saw any word of a change
 * also sees the odd sequence stored before it, and one that saw the even sequence after it sees
 * every word. Fences would say the same, but ThreadSanitizer does not know them.
 */
#ifndef SXT_TELEMETRY_RECORD_H
#define SXT_TELEMETRY_RECORD_H

#include <stddef.h>
#include <stdint.h>

/* Bytes begin to end of a record; multiples of 8. */
static inline void sxt_tele_words_put(void *record, const void *from, size_t begin, size_t end)
{
	uint64_t *to = record;
	const uint64_t *words = from;

	for (size_t i = begin / 8; i < end / 8; i++)
		__atomic_store_n(&to[i], words[i], __ATOMIC_RELEASE);
}

static inline void sxt_tele_words_get(void *out, const void *record, size_t bytes)
{
	uint64_t *to = out;
	const uint64_t *words = record;

	for (size_t i = 0; i < bytes / 8; i++)
		to[i] = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
}

/* Between these two the record is being written; one thread at a time. */
static inline void sxt_tele_record_begin(uint32_t *sequence)
{
	__atomic_store_n(sequence, *sequence | 1, __ATOMIC_RELAXED);
}

static inline void sxt_tele_record_end(uint32_t *sequence)
{
	__atomic_store_n(sequence, *sequence + 1, __ATOMIC_RELEASE);
}

/*
 * The first bytes of a record whose first member is its sequence and second one a word of 4
 * bytes; the sequence of the copy is not looked at.
 */
static inline void sxt_tele_record_put(void *record, const void *from, size_t bytes)
{
	uint32_t *head = record;

	sxt_tele_record_begin(head);
	__atomic_store_n(&head[1], ((const uint32_t *)from)[1], __ATOMIC_RELEASE);
	sxt_tele_words_put(record, from, 8, bytes);
	sxt_tele_record_end(head);
}

#endif
