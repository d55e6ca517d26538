"""What is wrong with a spec's text, names, shapes and types (tilegen.syntax, tilegen.sema)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(
        Code.SPEC_TYPE,
        "a spec is a .tile file, or the text of one",
        ('name a file, `tilegen.compile("gemm.tile")`, or pass what stands in it, `tilegen.compile("kernel …")`',),
    ),
    Entry(Code.FILE_MISSING, "there is no file {path}", ("check the path; `samples/` holds specs to start from",)),
    Entry(Code.FILE_IS_FOLDER, "{path} is a folder, not a spec", ("name one .tile file",)),
    Entry(Code.FILE_UNREADABLE, "{path} cannot be read: {why}", ("check the file's permissions",)),
    Entry(Code.FILE_ENCODING, "{path} is not UTF-8 text", ("save the file as UTF-8", "name a .tile file")),
    Entry(
        Code.SYNTAX,
        "`{token}` cannot stand here",
        ("{hint}", "see docs/language.md for the form of each statement"),
    ),
    Entry(Code.BAD_CHARACTER, "the character `{character}` has no meaning here", ("remove it; comments start with #",)),
    Entry(
        Code.UNEXPECTED_END,
        "the file ends before the kernel does",
        ("close what is open: a kernel and a schedule end with `}}`",),
    ),
    Entry(
        Code.EMPTY_FILE,
        "the file holds no kernel",
        ("write one: `kernel name {{ … }}`", "`samples/` holds specs to start from"),
    ),
    Entry(
        Code.NOT_ASCII,
        "the letter `{character}` cannot stand here: names are ASCII",
        ("spell the name with the letters a to z and A to Z, digits and `_`",),
    ),
    Entry(
        Code.TOO_DEEP,
        "this expression is nested too deeply",
        ("give a part of it a name: an equation of its own costs nothing",),
    ),
    Entry(
        Code.UNKNOWN_STATEMENT,
        "there is no {kind} `{name}`",
        ("see docs/language.md for all of them", "{equation}"),
    ),
    Entry(Code.UNKNOWN_PARAMETER, "the kernel has no parameter {name}", ("leave {name} out, or declare it",)),
    Entry(
        Code.PARAMETER_MISSING,
        "the parameter {name} has no default and no value was given",
        ("give `-D {name}=…`, or `{name}=…` from Python",),
    ),
    Entry(
        Code.PARAMETER_VALUE,
        "{what} the parameter {name} is not one that it allows",
        ("choose an allowed value, or add this one where {name} is declared",),
    ),
    Entry(
        Code.PARAMETER_RANGE,
        "the range of the parameter {name} does not lead from its first value to its last",
        ("write `first .. last by step`, whole numbers whose distance is a multiple of the step",),
    ),
    Entry(Code.UNKNOWN_NAME, "`{name}` is not declared", ("declare it, or correct the spelling",)),
    Entry(
        Code.UNKNOWN_TYPE,
        "`{name}` is no element type",
        ("use bf16, f16, f32, i32, bool, or a parameter bound to one",),
    ),
    Entry(
        Code.UNKNOWN_FUNCTION,
        "there is no function `{name}`",
        ("write one of these, or what it computes in terms of them: {known}",),
    ),
    Entry(
        Code.WRONG_KIND, "the {kind} `{name}` cannot stand here", ("name the right thing, or rename one of the two",)
    ),
    Entry(Code.RESERVED_NAME, "`{name}` is built in and cannot be declared", ("choose another name",)),
    Entry(
        Code.REDEFINED,
        "`{name}` is declared twice",
        ("rename one of the two; an equation gives a name its only value",),
        "single assignment: every name has one meaning",
    ),
    Entry(
        Code.INPUT_ASSIGNED, "`{name}` is an input and cannot be defined", ("declare it as an output, or rename one",)
    ),
    Entry(
        Code.NO_OUTPUT,
        "the kernel {name} has no output",
        ("declare one, `output C: f32[M, N]`, and write what it holds, `C[i, j] = …`",),
    ),
    Entry(
        Code.OUTPUT_UNDEFINED, "no equation defines the output {name}", ("write `{name}[…] = …`, or remove the output",)
    ),
    Entry(
        Code.UNUSED,
        "the {kind} `{name}` is never used",
        ("use it or remove it; a misspelt use elsewhere may be meant",),
    ),
    Entry(Code.BAD_CONSTANT, "this has no value when the kernel is built: {why}", ("correct the expression",)),
    Entry(
        Code.INTEGER_LITERAL,
        "the whole number {value} is too large here",
        ("write a smaller number", "to leave positions unlimited, leave the condition out"),
        "kernels compute positions and counts in 32-bit integers",
    ),
    Entry(Code.NOT_CONSTANT, "this must be known when the kernel is built", ("use numbers and parameters only",)),
    Entry(
        Code.BAD_EXTENT,
        "this is no extent",
        ("write a positive whole number of positions: sums and products of sizes and numbers",),
        "extents are integer polynomials in sizes",
    ),
    Entry(
        Code.BAD_INDEX,
        "this is no index",
        (
            "write a sum of axes with whole factors and of sizes, such as `i + Sk - Sq`, or a lookup `table[b, p]`",
            "where an index is divided or its rest is taken, `split` the axis",
        ),
        "indices are affine with compile-time factors, split axes, or lookups",
    ),
    Entry(
        Code.INDEX_RANGE,
        "this index of {name} leaves its dimension {dimension} at a position of the domain",
        ("{remedy}", "make the axis shorter or the dimension longer"),
        "an input has no value outside its dimensions, and only inequalities of positions keep an index inside",
    ),
    Entry(
        Code.INDEX_OF_SEQUENCE,
        "lengths of sequences decide whether this index of {name} stays in its dimension {dimension}",
        ("{remedy}", "say in the scalar's constraint what it may be: `scalar k: i32 >= 0`"),
        "lengths lie on the GPU, so that no launch can judge an index by them",
    ),
    Entry(
        Code.LOOKUP_TYPE, "positions are looked up in integer tensors, and {name} is none", ("declare {name} as i32",)
    ),
    Entry(Code.WRONG_RANK, "`{name}` is indexed by the wrong number of entries", ("give one entry a dimension",)),
    Entry(Code.NEEDS_INDEX, "the {kind} `{name}` needs an index here", ("write `{name}[…]`",)),
    Entry(
        Code.AXIS_EXTENT,
        "the axis `{name}` does not fit this dimension",
        ("use an axis of the dimension's own extent, or give the tensor this axis's",),
        "an axis alone in a dimension runs over the whole of it",
    ),
    Entry(
        Code.AXIS_EXTENT_UNKNOWN,
        "nothing says how far the axis `{name}` runs",
        ("declare it: `axis {name} in …`, or index a tensor by it alone",),
    ),
    Entry(
        Code.AXIS_USED_ONCE,
        "`{name}` is declared nowhere and stands here alone",
        ("correct the spelling, or declare it: `axis {name} in …`",),
        "an undeclared axis that occurs once is taken for a typo",
    ),
    Entry(Code.AXIS_TWICE, "the axis `{name}` stands here twice", ("name each axis once",)),
    Entry(
        Code.AXIS_NOT_REACHED,
        "the tile `{tile}` has `{name}` in its brackets, and its position in {tensor} does not depend on `{name}`",
        ("index {tensor} by `{name}`, or take it out of the brackets",),
    ),
    Entry(
        Code.AXIS_LEFT_OVER,
        "the value of {output} depends on `{name}`, and {output} is not indexed by it",
        ("fold over `{name}`: `sum[{name}](…)`", "add `{name}` to the output's dimensions"),
        "every axis of the right side stands on the left of an output",
    ),
    Entry(Code.SPLIT_TWICE, "the axis `{name}` is split twice", ("split one of its parts instead",)),
    Entry(Code.SPLIT_CYCLE, "the axis `{name}` is split off from itself", ("split an axis that `axis` declares",)),
    Entry(
        Code.SPLIT_UNEVEN,
        "the extent of `{name}` is not a multiple of what it is split by",
        ("declare the extent as a product, such as `axis h in Hk * G`, and split it by a factor",),
    ),
    Entry(
        Code.DOMAIN_AXIS_MISSING,
        "the condition depends on `{name}`, which is not named before the `:`",
        ("write `domain …, {name}: …`",),
    ),
    Entry(
        Code.DOMAIN_AXIS_UNUSED,
        "`{name}` is named before the `:` and the condition does not depend on it",
        ("take `{name}` out, or use it",),
    ),
    Entry(
        Code.DOMAIN_EMPTY,
        "this never holds, whatever the sizes",
        ("to switch a clause off, write `if` and a condition behind it",),
    ),
    Entry(
        Code.GUARD,
        "this cannot switch a clause on or off",
        (
            "write conditions on parameters, and at most one comparison of sizes and i32 scalars, joined by `and`",
            "make it a parameter if it is known when the kernel is built",
        ),
        "a guard has one value for the whole launch",
    ),
    Entry(
        Code.READ_OUTSIDE_DOMAIN,
        "`{name}` is read at another position than its own `{axis}`, where its domain may not hold",
        ("read it at `{axis}`", "write the value out again with the axis that is meant"),
        "an equation has values in its domain alone",
    ),
    Entry(
        Code.ELSE_MISSING,
        "{name} has points outside the domain and does not say what stands there",
        ("write `else 0` (or another number) behind its dimensions",),
        "an output is written everywhere or says what the other points hold",
    ),
    Entry(
        Code.RAGGED_TABLE,
        "{name} must hold where each sequence of {size} starts: {over} + 1 whole numbers",
        ("declare `input {name}: i32[{over} + 1]`",),
    ),
    Entry(
        Code.RAGGED_DIMENSION,
        "{name} has a dimension of {size}, which differs from one {over} to the next, and none of {over}",
        ("give {name} a dimension {over}: the two are stored as one axis of tokens",),
    ),
    Entry(Code.SCALAR_TYPE, "the scalar {name} has a type that arguments cannot have", ("use f32 or i32",)),
    Entry(Code.CONSTRAINT, "this is no constraint on a scalar", ("compare it with one number, such as `> 0`",)),
    Entry(
        Code.DEFAULT_CONSTRAINT,
        "the default of {name} breaks its own constraint",
        ("change the default or the constraint",),
    ),
    Entry(Code.WRONG_TYPE, "this has the wrong type", ("write what is wanted here",)),
    Entry(Code.ARGUMENTS, "`{name}` takes another number of arguments", ("see docs/language.md for its form",)),
    Entry(Code.FOLD_NEEDS_AXES, "`{name}` needs to know over which axes", ("write `{name}[axis](…)`",)),
    Entry(Code.FOLD_AXES, "`{name}` runs over axes, and this is none", ("name axes only, such as `{name}[i, j](…)`",)),
    Entry(
        Code.FOLD_AXIS_MISSING,
        "`{fold}` runs over `{name}`, and what it folds does not depend on `{name}`",
        ("fold over an axis that the expression has", "to count points, fold `select(…, 1, 0)` of something over them"),
    ),
    Entry(
        Code.EXTRA_TERM_AXIS,
        "a term behind the `;` of `{fold}` is added once a fold, and this one depends on `{name}`",
        ("move it before the `;`, or take `{name}` out of it",),
    ),
    Entry(Code.CYCLE, "`{name}` is defined by itself", ("break the circle: an equation reads earlier results only",)),
    Entry(Code.OUTPUT_TYPE, "{name} holds whole numbers and the value is none", ("cast it: `i32(floor(…))`",)),
    Entry(
        Code.PRODUCT_FACTOR,
        "this factor of a matrix product is wider than tensor cores take",
        ("cast it where it stands: `{cast}`",),
        "both factors of a product are 16-bit by what is written; nothing is cast silently",
    ),
    Entry(
        Code.PRODUCT_TYPES,
        "the two factors of this matrix product have different types",
        ("cast one of them",),
        "a tensor core multiplies two factors of one type",
    ),
    Entry(Code.UNKNOWN_TARGET, "there is no target `{name}`", ("schedule for hopper, sm_80 or mls",)),
    Entry(
        Code.SCHEDULE_CONDITION,
        "no schedule can be chosen by this",
        ("compare parameters, sizes and i32 scalars, and join comparisons by `and`, `or`, `not`",),
        "a schedule is chosen by parameters when the kernel is built, and by sizes and i32 scalars at the launch",
    ),
    Entry(
        Code.SCHEDULE_RAGGED,
        "no schedule can be chosen by {what} of sequences",
        (
            "choose by other sizes",
            "declare an i32 scalar for it, which the caller gives whatever sequences there are",
        ),
        "what else is in a batch must not change the bits of a sequence, and other schedules round in another order",
    ),
    Entry(
        Code.SCHEDULE_UNREACHABLE,
        "no launch ever takes this schedule: those before it are for all that it is for",
        (
            "put it in front of them, the narrowest condition first",
            "remove it",
            "to try another in front of it for a while, write `if true` behind that",
        ),
        "the first schedule whose condition holds is taken",
    ),
    Entry(Code.UNKNOWN_OPTION, "there is no directive `{name}`", ("see docs/language.md for all directives",)),
    Entry(Code.DIRECTIVE_TWICE, "`{directive}` is said twice in one schedule", ("keep one of the two",)),
    Entry(Code.DIRECTIVES_DISAGREE, "`{first}` and `{second}` ask for opposites", ("keep one of the two",)),
    Entry(Code.DIRECTIVE_NUMBER, "this number cannot stand here", ("write a whole number, or an int parameter",)),
    Entry(Code.DIRECTIVE_WORD, "`{directive}` does not know this word", ("choose one that it knows",)),
    Entry(Code.NAMED_TWICE, "`{name}` is named twice here", ("name it once",)),
)
