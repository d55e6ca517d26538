"""Compiled templates, kept on disk: jinja2 takes longer to compile one than all the rest of a kernel's text."""

from __future__ import annotations

import jinja2

from tilegen import disk


class Bytecode(jinja2.BytecodeCache):
    """jinja2 tells a template by its name and path, and what was kept of it by a checksum of its text."""

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        code = disk.read_table(self._made_from(bucket))
        if code is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        disk.write_table(self._made_from(bucket), bucket.bytecode_to_string())

    @staticmethod
    def _made_from(bucket: jinja2.bccache.Bucket) -> tuple[object, ...]:
        e = bucket.environment
        options = e.autoescape is True, e.trim_blocks, e.lstrip_blocks, e.keep_trailing_newline
        return "template", jinja2.__version__, options, bucket.key, bucket.checksum
