/*
 * many.c - enough functions over forty lines to spoil the profile.
 */
static int forty_one_0(void)
{
	int i = 0;

	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	return i;
}

static int forty_one_1(void)
{
	int i = 0;

	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	return i;
}

static int forty_one_2(void)
{
	int i = 0;

	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	return i;
}

static int forty_one_3(void)
{
	int i = 0;

	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	i++;
	return i;
}

static int short_0(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_1(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_2(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_3(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_4(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_5(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_6(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_7(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_8(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_9(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_10(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_11(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_12(void)
{
	int i = 0;

	i++;
	return i;
}

static int short_13(void)
{
	int i = 0;

	i++;
	return i;
}
