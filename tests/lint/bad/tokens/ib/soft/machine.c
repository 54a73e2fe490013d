/*
 * machine.c - the software HCA may use time and sockets, and may not end the process.
 */
void sxt_soft_thing(void)
{
	socket(1, 2, 3);
	usleep(1);
	abort();
}
