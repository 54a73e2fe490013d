/*
 * replay.c - runs a harness over a corpus without libFuzzer: every file as it is, then with
 * bytes changed by a seeded generator, so that each run does the same.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX 65536
#define MUTANTS         2000

static uint64_t random_state = 0x9e3779b97f4a7c15ull;

/* xorshift64: all that is needed is that it differs and repeats. */
static size_t random_below(size_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (size_t)(random_state % limit);
}

/* A copy of exactly the size, so that AddressSanitizer sees a read past the end. */
static void run_exact(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes > 0 ? bytes : 1);

	if (copy == NULL)
		return;
	memcpy(copy, data, bytes);
	LLVMFuzzerTestOneInput(copy, bytes);
	free(copy);
}

static void run_mutants(const uint8_t *data, size_t bytes)
{
	static uint8_t mutant[INPUT_BYTES_MAX];

	for (int i = 0; i < MUTANTS && bytes > 0; i++) {
		size_t changes = 1 + random_below(4);
		size_t len = random_below(8) == 0 ? random_below(bytes + 1) : bytes;

		memcpy(mutant, data, bytes);
		while (changes-- > 0)
			mutant[random_below(bytes)] = (uint8_t)random_below(256);
		run_exact(mutant, len);
	}
}

static int run_file(const char *dir, const char *name)
{
	static uint8_t data[INPUT_BYTES_MAX];
	char path[4096];
	size_t bytes;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "rb");
	if (file == NULL) {
		fprintf(stderr, "replay: %s: %m\n", path);
		return -1;
	}
	bytes = fread(data, 1, sizeof(data), file);
	fclose(file);
	printf("%s\n", name);
	fflush(stdout); /* the last name printed is the one that crashed */
	run_exact(data, bytes);
	run_mutants(data, bytes);
	return 0;
}

int main(int argc, char **argv)
{
	struct dirent *entry;
	int failed_cnt = 0;
	int run_cnt = 0;
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;

	if (dir == NULL) {
		fprintf(stderr, "usage: replay CORPUS_FOLDER\n");
		return 2;
	}
	for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
		if (entry->d_name[0] == '.')
			continue;
		run_cnt++;
		failed_cnt += run_file(argv[1], entry->d_name) != 0;
	}
	closedir(dir);
	printf("%d inputs, each with %d mutants\n", run_cnt, MUTANTS);
	return run_cnt > 0 && failed_cnt == 0 ? 0 : 1;
}
