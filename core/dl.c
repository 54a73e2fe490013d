/*
 * dl.c - dlopen() into function tables (slow path).
 */
#include "core/dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void *look_up(void *handle, const struct sxt_dl_symbol *symbol)
{
	if (symbol->version != NULL)
		return dlvsym(handle, symbol->name, symbol->version);
	return dlsym(handle, symbol->name);
}

static const char *loader_words(void)
{
	const char *text = dlerror();

	return text != NULL ? text : "no reason given by the loader";
}

int sxt_dl_open(const char *file, const struct sxt_dl_symbol *symbols, void *table,
		void **handle_out, char *why, size_t why_bytes)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (handle == NULL) {
		snprintf(why, why_bytes, "%s", loader_words());
		return -ENOENT;
	}
	for (size_t i = 0; symbols[i].name != NULL; i++) {
		if (look_up(handle, &symbols[i]) == NULL && !symbols[i].optional) {
			snprintf(why, why_bytes, "%s has no %s: %s", file, symbols[i].name,
				 loader_words());
			dlclose(handle);
			return -ENOSYS;
		}
	}
	for (size_t i = 0; symbols[i].name != NULL; i++) {
		void *address = look_up(handle, &symbols[i]);

		/* POSIX lets an object pointer from dlsym() hold a function's address. */
		memcpy((char *)table + symbols[i].offset, &address, sizeof(address));
	}
	*handle_out = handle;
	return 0;
}

void sxt_dl_close(void *handle)
{
	if (handle != NULL)
		dlclose(handle);
}
