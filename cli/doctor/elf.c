/*
 * elf.c - the symbols that a shared object defines, read without loading it.
 */
#include "cli/doctor/doctor.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTIONS_MAX 4096
#define TABLE_MAX    (64 * 1024 * 1024)

/* Which machine the tree is of: the kernel tells since 5.18, else the one this was built for. */
static uint16_t machine_of(const struct sxt_doctor *d)
{
	char arch[32];

	if (sxt_doctor_read(d, arch, sizeof(arch), "/proc/sys/kernel/arch") != 0) {
#if defined(__aarch64__)
		snprintf(arch, sizeof(arch), "aarch64");
#else
		snprintf(arch, sizeof(arch), "x86_64");
#endif
	}
	return strcmp(arch, "aarch64") == 0 ? EM_AARCH64 : EM_X86_64;
}

static int read_at(int fd, void *out, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX - bytes)
		return -EBADMSG;
	while (done < bytes) {
		ssize_t got = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));

		if (got < 0)
			return -errno;
		if (got == 0)
			return -EBADMSG;
		done += (size_t)got;
	}
	return 0;
}

/* Return: 0 with memory to free(), one zero byte behind it. */
static int read_section(int fd, const Elf64_Shdr *section, char **out)
{
	int rc;

	if (section->sh_size > TABLE_MAX)
		return -EBADMSG;
	*out = calloc(1, section->sh_size + 1);
	if (*out == NULL)
		return -ENOMEM;
	rc = read_at(fd, *out, section->sh_size, section->sh_offset);
	if (rc != 0) {
		free(*out);
		*out = NULL;
	}
	return rc;
}

static int read_header(const struct sxt_doctor *d, int fd, Elf64_Ehdr *out)
{
	int rc = read_at(fd, out, sizeof(*out), 0);

	if (rc == -EBADMSG ||
	    (rc == 0 &&
	     (memcmp(out->e_ident, ELFMAG, SELFMAG) != 0 || out->e_ident[EI_CLASS] != ELFCLASS64 ||
	      out->e_ident[EI_DATA] != ELFDATA2LSB || out->e_type != ET_DYN ||
	      out->e_machine != machine_of(d))))
		return -ENOEXEC;
	if (rc == 0 && (out->e_shentsize != sizeof(Elf64_Shdr) || out->e_shnum > SECTIONS_MAX))
		return -EBADMSG;
	return rc;
}

/* The table of dynamic symbols and its texts. */
static int find_symbols(int fd, const Elf64_Ehdr *header, Elf64_Shdr *symbols, Elf64_Shdr *texts)
{
	for (unsigned int i = 0; i < header->e_shnum; i++) {
		int rc = read_at(fd, symbols, sizeof(*symbols),
				 header->e_shoff + i * sizeof(*symbols));

		if (rc != 0)
			return rc;
		if (symbols->sh_type != SHT_DYNSYM)
			continue;
		if (symbols->sh_link >= header->e_shnum)
			return -EBADMSG;
		return read_at(fd, texts, sizeof(*texts),
			       header->e_shoff + symbols->sh_link * sizeof(*texts));
	}
	return -EBADMSG;
}

static uint32_t match(const char *name, const char *const *names, size_t names_cnt)
{
	for (size_t i = 0; i < names_cnt; i++) {
		if (strcmp(name, names[i]) == 0)
			return 1u << i;
	}
	return 0;
}

static int look_up(int fd, const Elf64_Ehdr *header, const char *const *names, size_t names_cnt,
		   uint32_t *mask_out)
{
	Elf64_Shdr symbols = {0};
	Elf64_Shdr texts = {0};
	char *table = NULL;
	char *text = NULL;
	uint32_t mask = 0;
	int rc = find_symbols(fd, header, &symbols, &texts);

	if (rc == 0)
		rc = read_section(fd, &symbols, &table);
	if (rc == 0)
		rc = read_section(fd, &texts, &text);
	for (size_t at = 0; rc == 0 && at + sizeof(Elf64_Sym) <= symbols.sh_size;
	     at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;

		memcpy(&symbol, table + at, sizeof(symbol));
		if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < texts.sh_size)
			mask |= match(text + symbol.st_name, names, names_cnt);
	}
	free(table);
	free(text);
	if (rc == 0)
		*mask_out = mask;
	return rc;
}

int sxt_doctor_elf_exports(const struct sxt_doctor *d, const char *path, const char *const *names,
			   size_t names_cnt, uint32_t *mask_out)
{
	char name[PATH_MAX];
	Elf64_Ehdr header;
	struct stat info;
	int fd;
	int rc;

	if (snprintf(name, sizeof(name), "%s%s", strcmp(d->root, "/") == 0 ? "" : d->root, path) >=
	    (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	rc = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? 0 : -ENOEXEC;
	if (rc == 0)
		rc = read_header(d, fd, &header);
	if (rc == 0)
		rc = look_up(fd, &header, names, names_cnt, mask_out);
	close(fd);
	return rc;
}
