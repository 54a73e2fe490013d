/*
 * long.c - functions and blocks over the limits.
 */
static int just_fits(void)
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

static int too_long(void)
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

static int six(int a, int b, int c, int d, int e, int f)
{
	return a + b + c + d + e + f;
}

static int seven(int a, int b, int c, int (*d)(int x, int y), int e, int f, int g)
{
	return a + b + c + d(1, 2) + e + f + g;
}

static int three_deep(int a)
{
	const struct { int x; } table[] = {{1}, {2}};

	for (int i = 0; i < a; i++) {
		while (a > 3) {
			if (a == i) {
				a--;
			} else {
				a -= table[0].x;
			}
		}
	}
	return a;
}

static int four_deep(int a)
{
	for (int i = 0; i < a; i++) {
		switch (i) {
		case 1:
			do {
				if (a == 2) {
					a--;
				}
			} while (a > 3);
		}
	}
	return a;
}
