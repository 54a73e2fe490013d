/* stray.c - in no room. */
