"""Times kernels beside their peers: in one process, in rounds, each result held against an exact one first.

`tilegen bench` and the scripts in benchmarks/ are its front ends. torch and the peers are imported where they are used.
"""
