"""Values of parameters as Python's array libraries spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tilegen.ir.dtypes import BY_WORD, DType

if TYPE_CHECKING:
    from tilegen.ir.tile import ParamValue


def plain(value: Any) -> str | ParamValue:
    """A value that tilegen knows, from one of numpy's numbers or an element type of torch's or numpy's.

    Anything else comes back as it is, for the kernel's parameters to refuse.
    """
    if isinstance(value, str | bool | int | float | DType):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return cast("ParamValue", value.item())
    word = str(getattr(value, "__name__", None) or getattr(value, "name", None) or value)
    return cast("ParamValue", BY_WORD.get(word.removeprefix("torch."), value))
