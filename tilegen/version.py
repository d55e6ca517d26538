"""The version of tilegen: in every generated file and in cache keys."""

VERSION = "0.1.0"
