/*
 * handshake.c - writing and reading side-channel frames (slow path, pure).
 */
#include "ib/handshake.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX 255
#define QPN_MAX        0xffffffu
#define PADDED(bytes)  (((bytes) + 3) & ~(size_t)3)

void sxt_frame_begin(struct sxt_frame_out *frame, uint16_t type, uint32_t conn_to,
		     uint32_t conn_from)
{
	const struct sxt_wire_frame header = {
		.magic = SXT_WIRE_MAGIC,
		.version = SXT_WIRE_VERSION,
		.version_min = SXT_WIRE_VERSION_MIN,
		.type = type,
		.conn_to = conn_to,
		.conn_from = conn_from,
	};

	memcpy(frame->bytes, &header, sizeof(header));
	frame->used = sizeof(header);
}

static void set_length(struct sxt_frame_out *frame)
{
	uint32_t length = (uint32_t)(frame->used - sizeof(struct sxt_wire_frame));

	memcpy(frame->bytes + offsetof(struct sxt_wire_frame, length), &length, sizeof(length));
}

void sxt_frame_add(struct sxt_frame_out *frame, uint16_t type, const void *value, size_t bytes)
{
	const struct sxt_wire_tlv tlv = {.type = type, .length = (uint16_t)bytes};
	uint8_t *at = frame->bytes + frame->used;

	if (bytes > UINT16_MAX || sizeof(tlv) + PADDED(bytes) > sizeof(frame->bytes) - frame->used)
		return;
	memset(at, 0, sizeof(tlv) + PADDED(bytes));
	memcpy(at, &tlv, sizeof(tlv));
	memcpy(at + sizeof(tlv), value, bytes);
	frame->used += sizeof(tlv) + PADDED(bytes);
	set_length(frame);
}

void sxt_frame_add_text(struct sxt_frame_out *frame, uint16_t type, const char *text)
{
	sxt_frame_add(frame, type, text, strnlen(text, TEXT_BYTES_MAX));
}

void sxt_frame_add_error(struct sxt_frame_out *frame, int error, const char *text)
{
	uint8_t value[sizeof(uint32_t) + TEXT_BYTES_MAX];
	uint32_t number = (uint32_t)-error;
	size_t len = strnlen(text, TEXT_BYTES_MAX);

	memcpy(value, &number, sizeof(number));
	memcpy(value + sizeof(number), text, len);
	sxt_frame_add(frame, SXT_TLV_ERROR, value, sizeof(number) + len);
}

static bool is_printable(uint8_t byte)
{
	return byte >= 0x20 && byte < 0x7f;
}

void sxt_bytes_text(const void *bytes, size_t cnt, char *out, size_t out_bytes)
{
	const uint8_t *from = bytes;
	size_t used = 0;
	size_t shown = cnt < 16 ? cnt : 16;

	out[0] = '\0';
	for (size_t i = 0; i < shown && used + 4 < out_bytes; i++)
		used += (size_t)snprintf(out + used, out_bytes - used, "%02x ", from[i]);
	for (size_t i = 0; i < shown && used + 4 < out_bytes; i++)
		used += (size_t)snprintf(out + used, out_bytes - used, "%s%c%s", i == 0 ? "\"" : "",
					 is_printable(from[i]) ? from[i] : '.',
					 i + 1 == shown ? "\"" : "");
}

static int check_version(uint16_t version, uint16_t version_min, char *why, size_t why_bytes)
{
	if (version_min <= SXT_WIRE_VERSION && version >= SXT_WIRE_VERSION_MIN &&
	    version_min <= version)
		return 0;
	snprintf(why, why_bytes,
		 "it speaks wire versions %u to %u, this end %u to %u: install the same release of "
		 "Sextant on both",
		 version_min, version, SXT_WIRE_VERSION_MIN, SXT_WIRE_VERSION);
	return -EPROTO;
}

int sxt_frame_read_header(const void *bytes, struct sxt_wire_frame *out, char *why,
			  size_t why_bytes)
{
	struct sxt_wire_frame header;
	char seen[96];
	int rc;

	memcpy(&header, bytes, sizeof(header));
	if (header.magic != SXT_WIRE_MAGIC) {
		sxt_bytes_text(bytes, sizeof(header), seen, sizeof(seen));
		snprintf(why, why_bytes, "it does not speak Sextant's protocol (%s)", seen);
		return -EBADMSG;
	}
	rc = check_version(header.version, header.version_min, why, why_bytes);
	if (rc == 0 && header.length > SXT_FRAME_BYTES_MAX) {
		snprintf(why, why_bytes, "its %s frame announces %u bytes, %u are the most",
			 sxt_frame_type_name(header.type), header.length, SXT_FRAME_BYTES_MAX);
		return -EMSGSIZE;
	}
	*out = header;
	return rc;
}

static int wrong_size(uint16_t type, size_t got, size_t want, char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "record %u has %zu bytes where %zu are expected", type, got, want);
	return -EBADMSG;
}

/* A text of the peer's, made fit for a log line. */
static void take_text(const uint8_t *value, size_t bytes, char *out, size_t out_bytes)
{
	size_t len = bytes < out_bytes - 1 ? bytes : out_bytes - 1;

	memmove(out, value, len);
	for (size_t i = 0; i < len; i++) {
		if (!is_printable(value[i]))
			out[i] = '?';
	}
	out[len] = '\0';
}

/* The same of several lines. */
static void take_lines(const uint8_t *value, size_t bytes, char *out, size_t out_bytes)
{
	take_text(value, bytes, out, out_bytes);
	for (size_t i = 0; out[i] != '\0'; i++) {
		if (value[i] == '\n')
			out[i] = '\n';
	}
}

static int take_error(const uint8_t *value, size_t bytes, struct sxt_frame_facts *facts)
{
	uint32_t number;

	if (bytes < sizeof(number))
		return -EBADMSG;
	memcpy(&number, value, sizeof(number));
	/* Not an errno, or "call again": neither may reach our callers as it stands. */
	facts->error = number == 0 || number > 4095 || number == EAGAIN ? -EREMOTEIO : -(int)number;
	take_text(value + sizeof(number), bytes - sizeof(number), facts->text, sizeof(facts->text));
	facts->has_error = true;
	return 0;
}

/* Values that no end of ours sends and the verbs library would trip over. */
static int check_path(const struct sxt_wire_path *path, char *why, size_t why_bytes)
{
	if (path->qpn == 0 || path->qpn > QPN_MAX || path->psn > QPN_MAX ||
	    path->mtu < IBV_MTU_256 || path->mtu > IBV_MTU_4096 || path->max_message_log2 > 40 ||
	    path->gid_type > IBV_GID_TYPE_ROCE_V2 || path->place >= SXT_PORTS_MAX ||
	    (path->link_layer != IBV_LINK_LAYER_INFINIBAND &&
	     path->link_layer != IBV_LINK_LAYER_ETHERNET)) {
		snprintf(why, why_bytes,
			 "its path makes no sense (qp 0x%x psn 0x%x mtu %u link layer %u GID type "
			 "%u largest message 2^%u)",
			 path->qpn, path->psn, path->mtu, path->link_layer, path->gid_type,
			 path->max_message_log2);
		return -EBADMSG;
	}
	return 0;
}

/* @places: how many there are. */
static int check_candidate(const struct sxt_wire_candidate *candidate, uint32_t places, char *why,
			   size_t why_bytes)
{
	if (candidate->place < places && candidate->gid_type <= IBV_GID_TYPE_ROCE_V2 &&
	    candidate->prefix_len <= 128 &&
	    (candidate->link_layer == SXT_LINK_INFINIBAND ||
	     candidate->link_layer == SXT_LINK_ETHERNET))
		return 0;
	snprintf(why, why_bytes,
		 "an address of it makes no sense (port %u, GID type %u, prefix %u, link layer %u)",
		 candidate->place, candidate->gid_type, candidate->prefix_len,
		 candidate->link_layer);
	return -EBADMSG;
}

static int check_memory(const struct sxt_wire_memory *memory, char *why, size_t why_bytes)
{
	uint64_t end;

	if (memory->bytes == 0 || memory->rkeys_cnt == 0 || memory->rkeys_cnt > SXT_PORTS_MAX ||
	    __builtin_add_overflow(memory->addr, memory->bytes, &end)) {
		snprintf(why, why_bytes, "its memory makes no sense (0x%llx, %u bytes, %u keys)",
			 (unsigned long long)memory->addr, memory->bytes, memory->rkeys_cnt);
		return -EBADMSG;
	}
	return 0;
}

/* One fixed-size record: where it goes and what must hold. */
struct fixed {
	uint16_t type;
	size_t bytes;
	size_t offset;
	size_t has_offset;
};

#define FIXED(number, member, has)                                        \
	{                                                                 \
		number, sizeof(((struct sxt_frame_facts *)NULL)->member), \
			offsetof(struct sxt_frame_facts, member),         \
			offsetof(struct sxt_frame_facts, has)             \
	}

static const struct fixed fixed_records[] = {
	FIXED(SXT_TLV_PROCESS, process, has_process),
	FIXED(SXT_TLV_TOKEN, token, has_token),
	FIXED(SXT_TLV_RING, ring, has_ring),
	FIXED(SXT_TLV_RECORDS, records, has_records),
	FIXED(SXT_TLV_PROGRESS, progress, has_progress),
	FIXED(SXT_TLV_FAILED, failed, has_failed),
	FIXED(SXT_TLV_RESORT, resort, has_resort),
	FIXED(SXT_TLV_TRIES, tries, has_tries),
	FIXED(SXT_TLV_TUNER, tuner, has_tuner),
};

static int take_path(const uint8_t *value, size_t bytes, struct sxt_frame_facts *facts, char *why,
		     size_t why_bytes)
{
	if (bytes != sizeof(struct sxt_wire_path))
		return wrong_size(SXT_TLV_PATH, bytes, sizeof(struct sxt_wire_path), why,
				  why_bytes);
	if (facts->paths_cnt == SXT_PATHS_MAX) {
		snprintf(why, why_bytes, "it has more than %d paths", SXT_PATHS_MAX);
		return -EBADMSG;
	}
	memcpy(&facts->paths[facts->paths_cnt++], value, bytes);
	return 0;
}

/* More than we know what to do with are no fault: the best come first. */
static int take_candidate(const struct sxt_wire_tlv *tlv, const uint8_t *value,
			  struct sxt_frame_facts *facts, char *why, size_t why_bytes)
{
	if (tlv->length != sizeof(struct sxt_wire_candidate))
		return wrong_size(tlv->type, tlv->length, sizeof(struct sxt_wire_candidate), why,
				  why_bytes);
	if (tlv->type == SXT_TLV_OTHER && facts->others_cnt < SXT_OTHERS_MAX)
		memcpy(&facts->others[facts->others_cnt++], value, tlv->length);
	else if (tlv->type == SXT_TLV_CANDIDATE && facts->candidates_cnt < SXT_CANDIDATES_MAX)
		memcpy(&facts->candidates[facts->candidates_cnt++], value, tlv->length);
	return 0;
}

static int take_ece(const struct sxt_wire_tlv *tlv, const uint8_t *value, struct sxt_eces *eces,
		    char *why, size_t why_bytes)
{
	struct sxt_wire_ece *ece = &eces->of[eces->cnt];

	if (tlv->length != sizeof(*ece))
		return wrong_size(tlv->type, tlv->length, sizeof(*ece), why, why_bytes);
	if (eces->cnt == SXT_PATHS_MAX)
		return 0;
	memcpy(ece, value, sizeof(*ece));
	if (ece->path >= SXT_PATHS_MAX) {
		snprintf(why, why_bytes, "it speaks of path %u, there are %d at most", ece->path,
			 SXT_PATHS_MAX);
		return -EBADMSG;
	}
	eces->cnt++;
	return 0;
}

static int take_record(const struct sxt_wire_tlv *tlv, const uint8_t *value,
		       struct sxt_frame_facts *facts, char *why, size_t why_bytes)
{
	if (tlv->type == SXT_TLV_HOST)
		take_text(value, tlv->length, facts->host, sizeof(facts->host));
	else if (tlv->type == SXT_TLV_RELEASE)
		take_text(value, tlv->length, facts->release, sizeof(facts->release));
	else if (tlv->type == SXT_TLV_SETTINGS)
		take_lines(value, tlv->length, facts->settings, sizeof(facts->settings));
	else if (tlv->type == SXT_TLV_ERROR && take_error(value, tlv->length, facts) != 0)
		return wrong_size(tlv->type, tlv->length, sizeof(uint32_t), why, why_bytes);
	else if (tlv->type == SXT_TLV_PATH)
		return take_path(value, tlv->length, facts, why, why_bytes);
	else if (tlv->type == SXT_TLV_CANDIDATE || tlv->type == SXT_TLV_OTHER)
		return take_candidate(tlv, value, facts, why, why_bytes);
	else if (tlv->type == SXT_TLV_ECE)
		return take_ece(tlv, value, &facts->eces, why, why_bytes);

	for (size_t i = 0; i < SXT_ARRAY_LEN(fixed_records); i++) {
		const struct fixed *fixed = &fixed_records[i];
		bool *has = (bool *)((char *)facts + fixed->has_offset);

		if (tlv->type != fixed->type || *has)
			continue;
		if (tlv->length != fixed->bytes)
			return wrong_size(tlv->type, tlv->length, fixed->bytes, why, why_bytes);
		memcpy((char *)facts + fixed->offset, value, fixed->bytes);
		*has = true;
	}
	return 0;
}

static int check_facts(struct sxt_frame_facts *facts, char *why, size_t why_bytes)
{
	int rc = 0;

	for (uint32_t i = 0; i < facts->paths_cnt && rc == 0; i++) {
		char *hca = facts->paths[i].hca;

		hca[sizeof(facts->paths[i].hca) - 1] = '\0';
		take_text((const uint8_t *)hca, strlen(hca), hca, sizeof(facts->paths[i].hca));
		rc = check_path(&facts->paths[i], why, why_bytes);
	}
	for (uint32_t i = 0; i < facts->candidates_cnt && rc == 0; i++)
		rc = check_candidate(&facts->candidates[i], SXT_PORTS_MAX, why, why_bytes);
	for (uint32_t i = 0; i < facts->others_cnt && rc == 0; i++)
		rc = check_candidate(&facts->others[i], SXT_RESORT_NAMED, why, why_bytes);
	if (rc == 0 && facts->has_ring)
		rc = check_memory(&facts->ring, why, why_bytes);
	if (rc == 0 && facts->has_records)
		rc = check_memory(&facts->records, why, why_bytes);
	return rc;
}

int sxt_frame_read_records(const void *bytes, size_t length, struct sxt_frame_facts *out, char *why,
			   size_t why_bytes)
{
	const uint8_t *at = bytes;
	size_t left = length;
	struct sxt_wire_tlv tlv;
	int rc = 0;

	memset(out, 0, offsetof(struct sxt_frame_facts, paths));
	out->settings[0] = '\0';
	out->eces.cnt = 0;
	while (left > 0 && rc == 0) {
		if (left < sizeof(tlv)) {
			snprintf(why, why_bytes, "%zu bytes are left over after its last record",
				 left);
			return -EBADMSG;
		}
		memcpy(&tlv, at, sizeof(tlv));
		if (PADDED(tlv.length) > left - sizeof(tlv)) {
			snprintf(why, why_bytes, "record %u of %u bytes overruns its frame",
				 tlv.type, tlv.length);
			return -EBADMSG;
		}
		rc = take_record(&tlv, at + sizeof(tlv), out, why, why_bytes);
		at += sizeof(tlv) + PADDED(tlv.length);
		left -= sizeof(tlv) + PADDED(tlv.length);
	}
	if (rc == 0)
		rc = check_facts(out, why, why_bytes);
	return rc;
}

const char *sxt_frame_type_name(uint16_t type)
{
	static const char *const names[] = {"unknown", "HELLO", "CONNECT", "ACCEPT", "READY",
					    "REJECT",  "CLOSE", "FAIL",    "PROVEN", "UNPROVEN"};

	return type < SXT_ARRAY_LEN(names) ? names[type] : names[0];
}

int sxt_handle_check(const struct sxt_wire_handle *handle, char *why, size_t why_bytes)
{
	char seen[96];

	if (handle->magic != SXT_WIRE_MAGIC ||
	    (handle->addr.family != 4 && handle->addr.family != 6) || handle->addr.port == 0) {
		sxt_bytes_text(handle, sizeof(*handle), seen, sizeof(seen));
		snprintf(why, why_bytes,
			 "it was not written by Sextant's listen (%s): does the peer use another "
			 "network plugin? NCCL_NET_PLUGIN must be the same on every rank",
			 seen);
		return -EBADMSG;
	}
	if (handle->ports_cnt > SXT_PORTS_MAX) {
		snprintf(why, why_bytes, "it speaks of %u ports in one NIC, at most %d are known",
			 handle->ports_cnt, SXT_PORTS_MAX);
		return -EBADMSG;
	}
	return check_version(handle->version, handle->version_min, why, why_bytes);
}
