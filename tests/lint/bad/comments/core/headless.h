/* Another file's name - or none at all. */
