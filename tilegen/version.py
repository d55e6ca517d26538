"""The version of tilegen: in every generated file and in cache keys."""

import time

VERSION = "0.1.0"

# When this process began to load tilegen, in ns: code that is newer on disk is not what runs here.
LOADED_NS = time.time_ns()
