"""Numbers that the kernel which deals out items of sequences (`plan.Sequences`) and its model have in common."""

THREADS = 1024  # of the kernel
BUCKETS = 256  # of costs, that units are ordered by
MOST_CTAS = 1024  # that it deals out to: a power of 2, more than a GPU has multiprocessors
