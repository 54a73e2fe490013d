/*
 * handshake.h - side-channel frames between their bytes and structs. Pure functions: bounds are
 * strict, whatever a peer or a stranger sends.
 */
#ifndef SXT_IB_HANDSHAKE_H
#define SXT_IB_HANDSHAKE_H

#include "core/compiler.h"
#include "ib/wire.h"

#include <stdbool.h>

/* Room for the longest frame we ever write. */
#define SXT_FRAME_OUT_BYTES 8704

/* A frame being written. */
struct sxt_frame_out {
	size_t used;
	uint8_t bytes[SXT_FRAME_OUT_BYTES];
};

/* Of the paths that have any. */
struct sxt_eces {
	uint32_t cnt;
	struct sxt_wire_ece of[SXT_PATHS_MAX];
};

/* What the records of a frame said; has_* tells what was there. */
struct sxt_frame_facts {
	bool has_process;
	bool has_token;
	bool has_ring;
	bool has_records;
	bool has_progress;
	bool has_error;
	bool has_failed;
	bool has_resort;
	bool has_tries;
	bool has_tuner;
	uint8_t process[SXT_UUID_BYTES];
	uint8_t token[SXT_TOKEN_BYTES];
	struct sxt_wire_memory ring;
	struct sxt_wire_memory records;
	struct sxt_wire_progress progress;
	struct sxt_wire_tuner tuner; /* zeroes when not said */
	int error;                   /* negative errno */
	char text[256];              /* of the error; texts are printable ASCII and terminated */
	char host[80];               /* "" when not said */
	char release[32];            /* "" when not said */
	uint64_t failed;             /* a bit per path */
	uint32_t resort;             /* number of a NIC of ours */
	uint32_t tries;              /* all paths' epochs together */
	/* Last, since they are large, and only as many as are counted are ever written. */
	uint32_t paths_cnt;
	uint32_t candidates_cnt;
	uint32_t others_cnt;
	struct sxt_wire_path paths[SXT_PATHS_MAX]; /* hca is terminated */
	struct sxt_wire_candidate candidates[SXT_CANDIDATES_MAX];
	struct sxt_wire_candidate others[SXT_OTHERS_MAX];
	struct sxt_eces eces;
	char settings[SXT_SETTINGS_BYTES]; /* lines; "" when not said */
};

/**
 * sxt_frame_begin() - start a frame.
 * @frame: overwritten. @type: enum sxt_frame_type. @conn_to, @conn_from: as in the header.
 */
void sxt_frame_begin(struct sxt_frame_out *frame, uint16_t type, uint32_t conn_to,
		     uint32_t conn_from);

/**
 * sxt_frame_add() - append one record and bring the header's length up to date.
 * @frame: begun. @type: enum sxt_tlv_type. @value, @bytes: its value; what does not fit is left
 * out whole.
 */
void sxt_frame_add(struct sxt_frame_out *frame, uint16_t type, const void *value, size_t bytes);

/**
 * sxt_frame_add_text() - append one record of text, cut at 255 bytes.
 * @frame: begun. @type: enum sxt_tlv_type. @text: terminated.
 */
void sxt_frame_add_text(struct sxt_frame_out *frame, uint16_t type, const char *text);

/**
 * sxt_frame_add_error() - append why something cannot be.
 * @frame: begun. @error: negative errno. @text: for the peer's log, cut at 255 bytes.
 */
void sxt_frame_add_error(struct sxt_frame_out *frame, int error, const char *text);

/**
 * sxt_frame_read_header() - check the fixed part of a frame.
 * @bytes: SXT's header size, 32 of them. @out: written on success, and on -EPROTO too, since an
 * answer to an older peer needs it.
 * @why, @why_bytes: on failure, what was seen and what was expected.
 * Return: 0, -EBADMSG if the peer does not speak this protocol, -EPROTO for a version that does
 * not overlap with ours, -EMSGSIZE for a length over the limit.
 */
SXT_MUST_CHECK int sxt_frame_read_header(const void *bytes, struct sxt_wire_frame *out, char *why,
					 size_t why_bytes);

/**
 * sxt_frame_read_records() - take the records of a frame apart.
 * @bytes, @length: what follows the header. @out: written; of no use after a failure.
 * @why, @why_bytes: on failure, what was wrong.
 * Return: 0, or -EBADMSG for a record that overruns, has a wrong size or a value no peer of ours
 * would send.
 */
SXT_MUST_CHECK int sxt_frame_read_records(const void *bytes, size_t length,
					  struct sxt_frame_facts *out, char *why, size_t why_bytes);

/**
 * sxt_frame_type_name() - a frame's type for messages.
 * @type: any number. Return: a static string.
 */
const char *sxt_frame_type_name(uint16_t type);

/**
 * sxt_handle_check() - is this what a listener of ours wrote?
 * @handle: the handle. @why, @why_bytes: on failure, what was seen and what was expected.
 * Return: 0, -EBADMSG for something else, -EPROTO for a version that does not overlap with ours.
 */
SXT_MUST_CHECK int sxt_handle_check(const struct sxt_wire_handle *handle, char *why,
				    size_t why_bytes);

/**
 * sxt_bytes_text() - the first bytes of something foreign, for messages: hex, then as text.
 * @bytes, @cnt: at most 16 are shown. @out, @out_bytes: text, at least 96 bytes.
 */
void sxt_bytes_text(const void *bytes, size_t cnt, char *out, size_t out_bytes);

#endif
