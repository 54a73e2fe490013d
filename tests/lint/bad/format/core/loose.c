/*
 * loose.c - not as clang-format writes it.
 */
int sxt_tight(void)
{
    if (1) { return 0; }
	return 1;
}
