"""The oracle: what a program means, by folds over the domain in float64, and how far an implementation may differ."""

from tilegen.oracle.comparison import Comparison, compare
from tilegen.oracle.data import batch_axes, default_sizes, poisoned, random_inputs
from tilegen.oracle.outputs import Result, evaluate
from tilegen.oracle.scalars import scalar_values
from tilegen.oracle.space import Space

__all__ = [
    "Comparison",
    "Result",
    "Space",
    "batch_axes",
    "compare",
    "default_sizes",
    "evaluate",
    "poisoned",
    "random_inputs",
    "scalar_values",
]
