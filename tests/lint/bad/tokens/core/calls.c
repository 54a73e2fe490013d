/*
 * calls.c - one banned call after the other; comments (atoi) and "strcpy(" in text are none.
 */
typedef struct thing {
	int (*connect)(int fd);
} thing;

static int select(int value)
{
	return value;
}

int sxt_calls(thing *sys, char *out)
{
	const char *home = getenv("HOME");
	int value = atoi(home);

	strcpy(out, home);
	strncpy(out, "strcpy(", 4);
	sprintf(out, "%d", value);
	strtok(out, ",");
	strtok_r(out, ",", &out);
	value += sys->connect(3) + select(4);
	connect(3);
	usleep(1);
	clock_gettime(0, 0);
	getrandom(out, 4, 0);
	epoll_wait(3, 0, 0, 0);
	printf("%d\n", value);
	fprintf(stderr, "no\n");
	exit(1);
}

/* TODO: leave nothing behind. */
