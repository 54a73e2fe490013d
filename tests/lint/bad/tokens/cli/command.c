/*
 * command.c - a command prints and exits, and reads the environment through the one door.
 */
int main(void)
{
	printf("%s\n", secure_getenv("HOME"));
	exit(0);
}
