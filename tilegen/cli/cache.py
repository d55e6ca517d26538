"""`tilegen cache`: where compiled kernels are kept, and how to be rid of them."""

from __future__ import annotations

from tilegen.cli.console import stdout
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.runtime import cache


def cache_command(clear: bool) -> None:
    """Print the cache's folder and what is in it, or what was removed from it."""
    out, place = stdout(), cache.folder()
    if place is None:
        out.print(f"the cache is off ({cache.VARIABLE}=off)", markup=False)
        return
    try:
        found = cache.clear(place) if clear else cache.contents(place)
    except OSError as error:
        fail(Code.CACHE_UNREADABLE, None, folder=place, reason=error.strerror or str(error))
    amount = f"{found.kernels} kernel{'' if found.kernels == 1 else 's'}, {found.bytes / 2**20:.1f} MiB"
    limit = "" if clear else f" of at most {cache.LIMIT / 2**20:.0f}"
    out.print(f"{place}: {'removed ' if clear else ''}{amount}{limit}", markup=False)
