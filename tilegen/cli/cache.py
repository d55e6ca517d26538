"""`tilegen cache`: where compiled kernels are kept, and how to be rid of them."""

from __future__ import annotations

from tilegen import disk
from tilegen.cli.console import stdout
from tilegen.diagnostics.catalogue import Code, fail


def cache_command(clear: bool) -> None:
    """Print the cache's folder and what is in it, or what was removed from it."""
    out, place = stdout(), disk.folder()
    if place is None:
        out.print(f"the cache is off ({disk.VARIABLE}=off)", markup=False)
        return
    try:
        found = disk.clear(place) if clear else disk.contents(place)
    except OSError as error:
        fail(Code.CACHE_UNREADABLE, None, folder=place, reason=error.strerror or str(error))
    amount = f"{found.kernels} kernel{'' if found.kernels == 1 else 's'}, {found.bytes / 2**20:.1f} MiB"
    limit = "" if clear else f" of at most {disk.LIMIT / 2**20:.0f}"
    out.print(f"{place}: {'removed ' if clear else ''}{amount}{limit}", markup=False)
