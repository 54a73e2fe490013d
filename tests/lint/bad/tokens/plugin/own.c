/*
 * own.c - cleanup by attribute.
 */
void sxt_own(void)
{
	__attribute__((cleanup(free_it))) char *text = 0;
}
