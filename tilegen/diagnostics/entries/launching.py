"""What is wrong with a launch: arrays, sizes, scalars, devices (tilegen.runtime)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(
        Code.NOT_AN_ARRAY,
        "{tensor} is given as {type}, which is no array of numbers in memory",
        ("pass a torch, CuPy or numpy array, or any object with __dlpack__ or __cuda_array_interface__",),
    ),
    Entry(
        Code.SIZE_VALUE,
        "the size {size} is given as something that is no whole number",
        ("pass {size}= as a whole number, or leave it out where the shapes of the arrays tell",),
    ),
    Entry(
        Code.NO_VARIANT,
        "no schedule of {kernel} is for these sizes",
        ("add a schedule without a condition on sizes behind the others",),
        "the first schedule whose condition holds is taken",
    ),
    Entry(
        Code.SEVERAL_VARIANTS,
        "{kernel} has {count} variants, each of which has this for itself",
        ("ask one of `kernel.variants`, or `kernel.variant(…)`, which takes the sizes of a launch",),
    ),
    Entry(
        Code.UNKNOWN_ARGUMENT,
        "{kernel} has no argument {name}",
        ("its arguments are {known}",),
    ),
    Entry(
        Code.ARGUMENTS_BY_NAME,
        "{kernel} takes its arguments by name only",
        ("call it as `kernel({call})`",),
    ),
    Entry(
        Code.MISSING_ARRAY,
        "{kernel} needs the input {tensor}",
        ("pass {tensor}=",),
    ),
    Entry(
        Code.ARRAY_RANK,
        "{tensor} has the wrong number of dimensions",
        ("reshape {tensor} to [{dims}]",),
    ),
    Entry(
        Code.ARRAY_DTYPE,
        "{tensor} holds elements of the wrong type",
        ("convert {tensor} to {dtype}", "compile the kernel for the type that {tensor} has, if a parameter sets it"),
    ),
    Entry(
        Code.ARRAY_DEVICE,
        "{tensor} and {other} are on different devices",
        ("move {tensor} to {device}",),
    ),
    Entry(
        Code.ARRAY_EXTENT,
        "dimension {dim} of {tensor}, which is {expression}, {why}",
        ("pass arrays whose shapes agree with the spec",),
    ),
    Entry(
        Code.ARRAY_CHUNK,
        "dimension {dim} of {tensor} cannot be moved in parts of {chunk} elements",
        ("pad it to a multiple of {chunk}",),
    ),
    Entry(
        Code.ARRAY_INNER_STRIDE,
        "the elements of {tensor} along its dimension {dim} are not next to each other in memory",
        ("copy {tensor} into a contiguous array", "store it so that dimension {dim} is the contiguous one"),
    ),
    Entry(
        Code.ARRAY_BACKWARDS,
        "{tensor} lies backwards in memory along its dimension {dim}, and TMA steps forwards only",
        (
            "copy {tensor} into a contiguous array",
            "{other}",
        ),
        "cuTensorMapEncodeTiled: globalStrides are not negative",
    ),
    Entry(
        Code.ARRAY_ALIGNMENT,
        "the rows of {tensor} are stored {bytes} bytes at a time, and {what} is not a multiple of that",
        (
            "pass an array that starts on a multiple of {bytes} bytes, as do its rows",
            "under `tilegen run`, choose sizes to fit: multiples of 8 for 16-bit numbers, of 4 for f32, of 16 for bool",
        ),
    ),
    Entry(
        Code.COPY_ALIGNMENT,
        "{tensor} is copied {bytes} bytes at a time, and {what} is not a multiple of that",
        ("take the variant of the kernel for such arrays: a call of the kernel does by itself",),
    ),
    Entry(
        Code.ARRAY_ELEMENT_ALIGNMENT,
        "{tensor} has elements of {bytes} bytes, and {what} is not a multiple of that",
        ("copy {tensor} into an array of its own",),
    ),
    Entry(
        Code.ARRAY_GRADIENT,
        "{tensor} requires a gradient, and a kernel does not hand one back",
        (
            "call the kernel under `torch.no_grad()`, or pass `{tensor}.detach()`",
            "to have gradients, call it in the `forward` of a `torch.autograd.Function` whose `backward` you write",
        ),
        "PyTorch would go on as though the outputs did not depend on {tensor}",
    ),
    Entry(
        Code.RAGGED_STARTS,
        "{starts} does not say where the sequences of {size} start",
        (
            "give the running sums of the lengths, 0 in front",
            "on a GPU it is the kernel that finds this: the outputs of that launch hold nothing",
        ),
        "sequences are stored one behind the other, so that each begins where the one before it ends",
    ),
    Entry(
        Code.OUTPUT_OVERLAP,
        "several positions of the output {tensor} share one place in memory: its dimension {dim} has stride 0",
        ("pass an output that is not expanded",),
    ),
    Entry(
        Code.OUTPUT_UNWRITTEN,
        "{kernel} has nothing to do at these sizes, and the output {output}, which has elements, would stay as it is",
        ("compute {output} by a kernel of its own", "do not call {kernel} for sizes of 0"),
    ),
    Entry(
        Code.OUTPUT_READ_ONLY,
        "the output {tensor} is given as an array that may not be written",
        ("pass a writable array", "leave {tensor} out: the call then makes one"),
    ),
    Entry(
        Code.SIZE_UNKNOWN,
        "the size {size} does not follow from the shapes of the arrays",
        ("pass {size}= as a number", "pass an output that it is an extent of"),
    ),
    Entry(
        Code.VARIANT_UNKNOWN,
        "which variant of {kernel} a launch takes depends on {missing} too",
        ("name all that it depends on: `kernel.variant({numbers})`",),
    ),
    Entry(
        Code.SIZE_RANGE,
        "the size {size} is out of range",
        ("pass arrays with fewer than 2**31 positions along every dimension",),
    ),
    Entry(
        Code.INTEGER_RANGE,
        "{kernel} computes `{expression}` in 32-bit integers, and it does not fit them at these sizes and scalars",
        (
            "pass smaller values: this one depends on {names}",
            "to leave positions unlimited, guard the clause of the domain by an `if` and switch it off",
        ),
        "positions and counts are int32 in a kernel, and would wrap around without a word",
    ),
    Entry(
        Code.OUTPUT_NOT_ALLOCATED,
        "{kernel} cannot make the output {tensor} itself: {reason}",
        ("pass {tensor}= as an array to write into",),
    ),
    Entry(
        Code.NO_DRIVER,
        "there is no CUDA driver or no GPU here: {reason}",
        ("pass numpy arrays: the kernel's PTX then runs on the CPU",),
    ),
    Entry(
        Code.TUNED_TARGET,
        "tuned schedules are kept for hopper, and {target} is asked for",
        ("leave out `tuned`", "compile for hopper"),
    ),
    Entry(
        Code.WRONG_GPU,
        "{device} is a {name}, and this kernel needs a {machine}",
        ("run it on an H100 or H200", "pass numpy arrays: the kernel's PTX then runs on the CPU"),
        "the code of the target hopper is made for sm_90a, which no other compute capability runs",
    ),
    Entry(
        Code.DRIVER_FAILED,
        "the CUDA driver failed to {what}: {reason}",
        ("look for an earlier kernel that failed: its error appears at the next call",),
    ),
    Entry(
        Code.SCALAR_MISSING,
        "the scalar {scalar} has no default and is not given",
        ("pass {scalar}=", "give it a default in the spec: `scalar {scalar}: {dtype} = …`"),
    ),
    Entry(
        Code.SCALAR_VALUE,
        "{value} is no value of the scalar {scalar}",
        ("pass a number that fits {dtype}",),
    ),
    Entry(
        Code.SCALAR_CONSTRAINT,
        "the scalar {scalar} is {value}, which its constraint rules out",
        ("pass a value that is {constraint}", "change the constraint, if the equations allow it"),
        "a constraint on a scalar is relied upon when the kernel is made, so it is checked at every launch",
    ),
    Entry(
        Code.INDEX_AT_LAUNCH,
        "with {numbers} an index of {name} leaves its dimension {dimension} at a position of the domain",
        ("pass other arrays or scalars", "in the spec, {remedy}"),
        "whether an index stays inside is checked at the launch where sizes or scalars decide it",
    ),
)
