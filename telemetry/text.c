/*
 * text.c - texts of a segment (any thread, no system call).
 */
#include "telemetry/text.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the character at the beginning of a text, 0 when it is none or a control character. */
static size_t character_bytes(const uint8_t *text, size_t bytes)
{
	static const uint32_t least[] = {0, 0x20, 0xa0, 0x800, 0x10000};
	size_t len = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
	uint32_t code = len == 1 ? text[0] : text[0] & (0x7fu >> len);

	if (len > bytes || (text[0] >= 0x80 && text[0] < 0xc0) || text[0] >= 0xf8)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3fu);
	}
	/* Too long a form, a control character, half of a pair, past the end of Unicode. */
	if (code < least[len] || code == 0x7f || (code >= 0xd800 && code < 0xe000) ||
	    code > 0x10ffff)
		return 0;
	return len;
}

void sxt_tele_text_clean(char *text, size_t bytes)
{
	size_t len = strnlen(text, bytes - 1);
	size_t at = 0;

	while (at < len) {
		size_t whole = character_bytes((const uint8_t *)text + at, len - at);

		if (whole == 0)
			text[at] = '?';
		at += whole == 0 ? 1 : whole;
	}
	memset(text + len, 0, bytes - len);
}

void sxt_tele_text_put(char *out, size_t out_bytes, const char *text)
{
	size_t len;

	if (out_bytes == 0)
		return;
	if (text == NULL)
		text = "";
	len = strnlen(text, out_bytes);
	if (len == out_bytes) {
		len--;
		while (len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80)
			len--;
	}
	memset(out, 0, out_bytes);
	memcpy(out, text, len);
	sxt_tele_text_clean(out, out_bytes);
}
