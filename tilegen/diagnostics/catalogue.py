"""The catalogue of diagnostics. A member's name is its stable code; its value says it in the author's words.

Use `fault(Code.X, span, field=…)` to make a Diagnostic and `fail(...)` to raise one at once.
`docs/errors.md` is generated from this file. Each entry has a test that makes it fire.
"""

from __future__ import annotations

import enum
from typing import NoReturn

from tilegen.diagnostics.core import REPORT, Diagnostic, Entry, Note, TilegenError
from tilegen.syntax.span import Span


class Code(enum.Enum):
    # ---- syntax and names (tilegen.syntax, tilegen.sema) ----
    FILE_MISSING = Entry("there is no file {path}", ("check the path; `samples/` holds specs to start from",))
    FILE_IS_FOLDER = Entry("{path} is a folder, not a spec", ("name one .tile file",))
    FILE_UNREADABLE = Entry("{path} cannot be read: {why}", ("check the file's permissions",))
    FILE_ENCODING = Entry("{path} is not UTF-8 text", ("save the file as UTF-8", "name a .tile file"))
    SYNTAX = Entry("`{token}` cannot stand here", ("see docs/language.md for the form of each statement",))
    BAD_CHARACTER = Entry("the character `{character}` has no meaning here", ("remove it; comments start with #",))
    UNEXPECTED_END = Entry(
        "the file ends before the kernel does",
        ("close what is open: a kernel and a schedule end with `}}`",),
    )
    EMPTY_FILE = Entry(
        "the file holds no kernel",
        ("write one: `kernel name {{ … }}`", "`samples/` holds specs to start from"),
    )
    NOT_ASCII = Entry(
        "the letter `{character}` cannot stand here: names are ASCII",
        ("spell the name with the letters a to z and A to Z, digits and `_`",),
    )
    TOO_DEEP = Entry(
        "this expression is nested too deeply", ("give a part of it a name: an equation of its own costs nothing",)
    )
    UNKNOWN_STATEMENT = Entry(
        "there is no {kind} `{name}`",
        ("see docs/language.md for all of them", "an equation is written `name[axes] = expression`"),
    )
    UNKNOWN_PARAMETER = Entry("the kernel has no parameter {name}", ("leave out `-D {name}=…`, or declare {name}",))
    PARAMETER_MISSING = Entry("the parameter {name} has no default and no value was given", ("give `-D {name}=…`",))
    PARAMETER_VALUE = Entry(
        "{what} of the parameter {name} is not one that it allows",
        ("choose an allowed value, or add this one where {name} is declared",),
    )
    PARAMETER_RANGE = Entry(
        "the range of the parameter {name} does not lead from its first value to its last",
        ("write `first .. last by step`, whole numbers whose distance is a multiple of the step",),
    )
    UNKNOWN_NAME = Entry("`{name}` is not declared", ("declare it, or correct the spelling",))
    UNKNOWN_TYPE = Entry("`{name}` is no element type", ("use bf16, f16, f32, i32, bool, or a parameter bound to one",))
    UNKNOWN_FUNCTION = Entry(
        "there is no function `{name}`",
        ("write one of these, or what it computes in terms of them: {known}",),
    )
    WRONG_KIND = Entry("the {kind} `{name}` cannot stand here", ("name the right thing, or rename one of the two",))
    RESERVED_NAME = Entry("`{name}` is built in and cannot be declared", ("choose another name",))
    REDEFINED = Entry(
        "`{name}` is declared twice",
        ("rename one of the two; an equation gives a name its only value",),
        "single assignment: every name has one meaning",
    )
    INPUT_ASSIGNED = Entry("`{name}` is an input and cannot be defined", ("declare it as an output, or rename one",))
    OUTPUT_UNDEFINED = Entry("no equation defines the output {name}", ("write `{name}[…] = …`, or remove the output",))
    UNUSED = Entry(
        "the {kind} `{name}` is never used",
        ("use it or remove it; a misspelt use elsewhere may be meant",),
    )
    BAD_CONSTANT = Entry("this has no value when the kernel is built: {why}", ("correct the expression",))
    INTEGER_LITERAL = Entry(
        "the whole number {value} is too large here",
        ("write a smaller number", "to leave positions unlimited, leave the condition out"),
        "kernels compute positions and counts in 32-bit integers",
    )
    NOT_CONSTANT = Entry("this must be known when the kernel is built", ("use numbers and parameters only",))
    BAD_EXTENT = Entry(
        "this is no extent",
        ("write a positive whole number of positions: sums and products of sizes and numbers",),
        "extents are integer polynomials in sizes",
    )
    BAD_INDEX = Entry(
        "this is no index",
        (
            "write a sum of axes with whole factors and of sizes, such as `i + Sk - Sq`, or a lookup `table[b, p]`",
            "where an index is divided or its rest is taken, `split` the axis",
        ),
        "indices are affine with compile-time factors, split axes, or lookups",
    )
    INDEX_RANGE = Entry(
        "this index of {name} leaves its dimension",
        ("make the axis shorter or the dimension longer", "limit the axis by a `domain` statement"),
        "an input has no value outside its dimensions",
    )
    LOOKUP_TYPE = Entry("positions are looked up in integer tensors, and {name} is none", ("declare {name} as i32",))
    WRONG_RANK = Entry("`{name}` is indexed by the wrong number of entries", ("give one entry a dimension",))
    NEEDS_INDEX = Entry("the {kind} `{name}` needs an index here", ("write `{name}[…]`",))
    AXIS_EXTENT = Entry(
        "the axis `{name}` does not fit this dimension",
        ("use an axis of the dimension's own extent, or give the tensor this axis's",),
        "an axis alone in a dimension runs over the whole of it",
    )
    AXIS_EXTENT_UNKNOWN = Entry(
        "nothing says how far the axis `{name}` runs",
        ("declare it: `axis {name} in …`, or index a tensor by it alone",),
    )
    AXIS_USED_ONCE = Entry(
        "`{name}` is declared nowhere and stands here alone",
        ("correct the spelling, or declare it: `axis {name} in …`",),
        "an undeclared axis that occurs once is taken for a typo",
    )
    AXIS_TWICE = Entry("the axis `{name}` stands here twice", ("name each axis once",))
    AXIS_NOT_REACHED = Entry(
        "the tile `{tile}` has `{name}` in its brackets, and its position in {tensor} does not depend on `{name}`",
        ("index {tensor} by `{name}`, or take it out of the brackets",),
    )
    AXIS_LEFT_OVER = Entry(
        "the value of {output} depends on `{name}`, and {output} is not indexed by it",
        ("fold over `{name}`: `sum[{name}](…)`", "add `{name}` to the output's dimensions"),
        "every axis of the right side stands on the left of an output",
    )
    SPLIT_TWICE = Entry("the axis `{name}` is split twice", ("split one of its parts instead",))
    SPLIT_CYCLE = Entry("the axis `{name}` is split off from itself", ("split an axis that `axis` declares",))
    SPLIT_UNEVEN = Entry(
        "the extent of `{name}` is not a multiple of what it is split by",
        ("declare the extent as a product, such as `axis h in Hk * G`, and split it by a factor",),
    )
    DOMAIN_AXIS_MISSING = Entry(
        "the condition depends on `{name}`, which is not named before the `:`", ("write `domain …, {name}: …`",)
    )
    DOMAIN_AXIS_UNUSED = Entry(
        "`{name}` is named before the `:` and the condition does not depend on it", ("take `{name}` out, or use it",)
    )
    DOMAIN_EMPTY = Entry(
        "this never holds, whatever the sizes", ("to switch a clause off, write `if` and a condition behind it",)
    )
    GUARD = Entry(
        "this cannot switch a clause on or off",
        (
            "write conditions on parameters, and at most one comparison of sizes and i32 scalars, joined by `and`",
            "make it a parameter if it is known when the kernel is built",
        ),
        "a guard has one value for the whole launch",
    )
    READ_OUTSIDE_DOMAIN = Entry(
        "`{name}` is read at another position than its own `{axis}`, where its domain may not hold",
        ("read it at `{axis}`", "write the value out again with the axis that is meant"),
        "an equation has values in its domain alone",
    )
    ELSE_MISSING = Entry(
        "{name} has points outside the domain and does not say what stands there",
        ("write `else 0` (or another number) behind its dimensions",),
        "an output is written everywhere or says what the other points hold",
    )
    RAGGED_TABLE = Entry(
        "{name} must hold where each sequence of {size} starts: {over} + 1 whole numbers",
        ("declare `input {name}: i32[{over} + 1]`",),
    )
    RAGGED_DIMENSION = Entry(
        "{name} has a dimension of {size}, which differs from one {over} to the next, and none of {over}",
        ("give {name} a dimension {over}: the two are stored as one axis of tokens",),
    )
    SCALAR_TYPE = Entry("the scalar {name} has a type that arguments cannot have", ("use f32 or i32",))
    CONSTRAINT = Entry("this is no constraint on a scalar", ("compare it with one number, such as `> 0`",))
    DEFAULT_CONSTRAINT = Entry(
        "the default of {name} breaks its own constraint", ("change the default or the constraint",)
    )
    WRONG_TYPE = Entry("this has the wrong type", ("write what is wanted here",))
    ARGUMENTS = Entry("`{name}` takes another number of arguments", ("see docs/language.md for its form",))
    FOLD_NEEDS_AXES = Entry("`{name}` needs to know over which axes", ("write `{name}[axis](…)`",))
    FOLD_AXES = Entry("`{name}` runs over axes, and this is none", ("name axes only, such as `{name}[i, j](…)`",))
    FOLD_AXIS_MISSING = Entry(
        "`{fold}` runs over `{name}`, and what it folds does not depend on `{name}`",
        ("fold over an axis that the expression has", "to count points, fold `select(…, 1, 0)` of something over them"),
    )
    EXTRA_TERM_AXIS = Entry(
        "a term behind the `;` of `{fold}` is added once a fold, and this one depends on `{name}`",
        ("move it before the `;`, or take `{name}` out of it",),
    )
    CYCLE = Entry("`{name}` is defined by itself", ("break the circle: an equation reads earlier results only",))
    OUTPUT_TYPE = Entry("{name} holds whole numbers and the value is none", ("cast it: `i32(floor(…))`",))
    PRODUCT_FACTOR = Entry(
        "this factor of a matrix product is wider than tensor cores take",
        ("cast it where it stands, such as `T(p[i, j]) * v[j, e]`",),
        "both factors of a product are 16-bit by what is written; nothing is cast silently",
    )
    PRODUCT_TYPES = Entry(
        "the two factors of this matrix product have different types",
        ("cast one of them",),
        "a tensor core multiplies two factors of one type",
    )
    UNKNOWN_TARGET = Entry("there is no target `{name}`", ("schedule for hopper, sm_80 or mls",))
    SCHEDULE_CONDITION = Entry(
        "no schedule can be chosen by this",
        ("compare parameters, sizes and i32 scalars, and join comparisons by `and`, `or`, `not`",),
        "a schedule is chosen by parameters when the kernel is built, and by sizes and i32 scalars at the launch",
    )
    SCHEDULE_RAGGED = Entry(
        "no schedule can be chosen by {what} of sequences",
        (
            "choose by other sizes",
            "declare an i32 scalar for it, which the caller gives whatever sequences there are",
        ),
        "what else is in a batch must not change the bits of a sequence, and other schedules round in another order",
    )
    SCHEDULE_UNREACHABLE = Entry(
        "no launch ever takes this schedule: those before it are for all that it is for",
        (
            "put it in front of them, the narrowest condition first",
            "remove it",
            "to try another in front of it for a while, write `if true` behind that",
        ),
        "the first schedule whose condition holds is taken",
    )
    UNKNOWN_OPTION = Entry("there is no directive `{name}`", ("see docs/language.md for all directives",))
    DIRECTIVE_TWICE = Entry("`{directive}` is said twice in one schedule", ("keep one of the two",))
    DIRECTIVES_DISAGREE = Entry("`{first}` and `{second}` ask for opposites", ("keep one of the two",))
    DIRECTIVE_NUMBER = Entry("this number cannot stand here", ("write a whole number, or an int parameter",))
    DIRECTIVE_WORD = Entry("`{directive}` does not know this word", ("choose one that it knows",))
    NAMED_TWICE = Entry("`{name}` is named twice here", ("name it once",))
    # ---- schedules and lowering (tilegen.passes) ----
    TARGET_UNSUPPORTED = Entry(
        "there is no plan for {target} here",
        (
            "compile for hopper or sm_80",
            "for mls there are `tilegen build --target mls` and `tilegen run --target mls`",
        ),
    )
    RAGGED_BATCHES = Entry(
        "an axis along {over} is to say which sequence is meant, and it is not the only one or there is none",
        ("let every ragged size differ along one size, and index that by one axis",),
    )
    RAGGED_TENSOR = Entry(
        "{tensor} cannot be stored as one axis of tokens",
        ("give it one dimension of a ragged size, and one of its sequences",),
        "sequences of different lengths are stored one behind the other, along one dimension",
    )
    RAGGED_INDEX = Entry(
        "{tensor} is read at a sequence other than the one at hand",
        ("index its dimension of sequences by {axis} alone",),
        "a kernel works on one sequence of {size} at a time",
    )
    RAGGED_GRID = Entry(
        "the items of {kernel} cannot be made of sequences of different lengths",
        ("let {axis} be an axis of the grid with a block of 1", "let only one axis of the grid be ragged"),
    )
    RAGGED_DEAL = Entry(
        "how many items there are depends on the lengths of sequences, and only a table can deal such items out",
        ("write `persistent table`, or leave it out: it is what a ragged kernel does",),
    )
    RAGGED_GROUP = Entry(
        "items cannot be grouped by {axis}, which the sequences' blocks are made of",
        ("group by another axis of the grid, such as the heads",),
    )
    RAGGED_STORE = Entry(
        "the output {output} cannot leave by TMA: the next sequence stands right behind a block",
        ("leave out `via {output} tma` and `alias {output}`: rows are stored from registers",),
        "a TMA store writes whole boxes, and cuts them at the tensor's end alone",
    )
    STORE_CHUNKS = Entry(
        "the output {output} cannot leave by TMA: its rows do not end with whole 16 bytes",
        ("write `via {output} rows` in the schedule: rows are stored from registers, and end anywhere",),
        "no manual says so, but on an H200 a TMA store writes the last 16 bytes of a row whole, past the tensor's end",
    )
    LOOKUP_UNSUPPORTED = Entry(
        "`{name}` is read at a position that a table gives, and no kernel is built for that yet",
        ("copy the rows in question into one tensor first",),
    )
    FOLD_OF_CONSTANT = Entry(
        "what is folded does not vary along {axes}",
        ("multiply by the extent instead, or fold over an axis that it has",),
    )
    FOLD_OVER_PART = Entry(
        "a fold over {axes} runs over a part of the split axis {whole}, and no kernel is built for that yet",
        ("give the two parts dimensions of their own",),
    )
    RENAMED_READ = Entry(
        "`{name}` is read with another index than the one it is defined with, and no kernel is built for that yet",
        ("read it as `{name}[{axes}]`", "declare another tile of the same tensor with the axes that are meant"),
    )
    READ_OF_OUTPUT = Entry(
        "the output {name} is read by another equation", ("name the value first, and define the output by it",)
    )
    DOMAIN_CUTS_PRODUCT = Entry(
        "the domain cuts through the product `{product}`, and none of its factors can be masked there",
        ("multiply by a value that is zero outside the domain", "leave the clause out and mask the result"),
    )
    SCAN_SHARED = Entry(
        "the domain leaves out positions of {tile} that `{product}` multiplies by zeros: what is no finite number must "
        "leave the tile for that, and it is read in another way too",
        (
            "declare another tile of the same tensor for this product",
            "write `isolate fast` if the tensor holds finite numbers only",
        ),
    )
    SCAN_HELD = Entry(
        "the domain leaves out positions of {axis}, where `{product}` multiplies {tile} by zeros: what is no finite "
        "number there would reach every row, and only tiles contracted along a streamed axis are looked through",
        (
            "make it the streamed axis: `stream {axis}`",
            "write `isolate fast` if the tensor holds finite numbers only",
        ),
    )
    NESTED_STREAMS = Entry(
        "the axes {axes} are all streamed, and a kernel has one streamed axis so far",
        ("give one of them a compile-time extent of at most 256, so that it is held",),
    )
    NO_ROWS = Entry(
        "no axis of {kernel} can be shared out to the {workers}",
        (
            "an output needs an axis of run-time extent that a tile has in its brackets and that is no part of a split",
            "kernels of one dimension are not compiled yet: give tensors an outer dimension, which may be of size 1",
        ),
    )
    TOO_MANY_DIRECTIONS = Entry(
        "{what} would run along too many axes at once: {axes}",
        (
            "block those by 1 that are too many",
            "read a value without the rows from a tensor that another kernel writes",
        ),
    )
    INDEX_NOT_AFFINE_UNIT = Entry(
        "an axis that a tile holds several positions of must index its dimension alone, with coefficient 1",
        ("block the axis by 1, or index by the axis itself",),
    )
    INNER_NOT_TILED = Entry(
        "the innermost dimension of {tensor} is fixed in the tile {tile}, and a box needs 16 contiguous bytes",
        ("give the innermost dimension an axis of the tile",),
    )
    INNER_EXTENT = Entry(
        "the tile {tile} holds a row of {axis} that no number of whole lines stores",
        ("block {axis} by whole lines", "where its extent is known, let it be a multiple of 8"),
        "rows lie in lines of 32, 64 or 128 bytes, and are read by 8 columns",
    )
    RANK = Entry(
        "the tensor {tensor} has too many dimensions for a tensor map",
        ("merge dimensions before the call",),
        "a tensor map has 1 to 5 dimensions (cuTensorMapEncodeTiled)",
    )
    K_STEP = Entry(
        "the product `{product}` contracts a part of {axis} that is no whole number of steps",
        ("block {axis} by a multiple of 16",),
        "an instruction of 16-bit types contracts 16 positions at a time",
    )
    TMA_COLUMN_OFFSET = Entry(
        "TMA cannot bring the tile {tile}: its columns begin where no 16 bytes of a row of {tensor} do",
        ("let threads copy the tile: `via {tile} cp_async` in the schedule", "shift the index by whole 16 bytes"),
        "a TMA load whose innermost coordinate is no multiple of 16 bytes ends the kernel as an illegal instruction",
    )
    ATOM_ROWS = Entry(
        "the tile {tile} holds a number of positions of {axis} that is not stored in whole patterns",
        ("block {axis} by a multiple of 8",),
        "tiles are stored by 8 rows",
    )
    MMA_WIDTH = Entry(
        "the product `{product}` is too wide, or not a whole number of columns",
        ("block its second axis by a multiple of 8, at most 256",),
        "a product has 8 to 256 columns, in steps of 8",
    )
    SECOND_FACTOR_IN_REGISTERS = Entry(
        "the second factor of the product `{product}` would stand in registers, and must be a tile",
        ("write the computed factor first, and the tile second",),
        "the second factor is read from shared memory only",
    )
    PRODUCT_PAST_END = Entry(
        "the product `{product}` contracts two tiles along {axis}, and behind its end {tile} goes on with what else "
        "{tensor} holds",
        ("end {tensor} where {axis} ends", "copy the part in question into a tensor of its own"),
        "a tile ends in zeros only where its tensor ends",
    )
    CONTRACTED_AXES = Entry(
        "the product `{product}` contracts {axes} at once, and a kernel contracts one axis so far",
        ("merge the axes into one dimension",),
    )
    FOLD_SHAPE = Entry(
        "`{name}` is folded to a value over {axes}, and a fold keeps one value for each {rows}",
        ("fold over the axes that leave {rows}",),
    )
    READ_NEEDS_TILE = Entry(
        "{tensor} is read along {axes} at once, and only vectors are read without a tile",
        (
            "declare `tile x[…] = {tensor}[…]` and read that",
            "in place of a clause of a `domain`, select with such a tile: `where(x[…], score, -inf)`",
        ),
    )
    TILE_ROWS = Entry(
        "the tile {tile} is read element by element, and its rows are not along {rows}, which is shared out to the "
        "{workers}",
        (
            "store the tensor with {rows} outside its innermost dimension",
            "{another}",
            "kernels of one dimension, and sums over the rows of a tile (column sums), are not compiled yet",
        ),
    )
    FUNCTION_UNSUPPORTED = Entry("no kernel is built for `{function}` yet", ("write it with other functions",))
    STORE_WITHOUT_ROWS = Entry(
        "the output {output} does not run along {axis}, which is shared out to the {workers}",
        ("define it over {axis}", "{another}"),
    )
    STORE_COLUMNS_NOT_INNER = Entry(
        "the output {output} is computed with columns along {axis}, which is not its innermost dimension",
        ("store it with {axis} last",),
    )
    STORE_TYPE = Entry(
        "the output {output} holds {dtype}, and kernels store bf16, f16 and f32 only so far",
        ("declare {output} as f32",),
    )
    BLOCK_OF_WORKERS = Entry(
        "the block of {axis} is shared out to {sharers}, 64 rows each",
        ("block {axis} by 64 for each {worker}", "state how many there are: {number}"),
        "64 rows are computed together",
    )
    BLOCK_OF_ROWS = Entry(
        "the block of {axis}, one of the axes that share the rows, does not divide the rows of a consumer evenly",
        (
            "block {axis} by a power of two: it need not divide the extent",
            "name {axis} first: `consumers N over {axis}, …`",
        ),
        "a row's position along each axis is a constant of the thread that holds it",
    )
    PRODUCT_ROWS = Entry(
        "the product `{product}` needs the tile {tile} along {rows}, which share the rows, and it lacks one of them",
        ("let the tile run along each axis of the rows", "share out fewer axes: `consumers N over AXIS`"),
        "64 rows of a first factor are read together",
    )
    BLOCK_OF_PART = Entry(
        "`{axis}` has no block of its own: it is a part of a split axis, or no equation uses it",
        ("block the axis that is split", "{part}"),
    )
    BLOCK_OF_HELD = Entry(
        "the axis {axis} is held whole in its tile ({extent} positions)",
        ("leave its block out", "make it streamed or a grid axis first"),
    )
    SPLIT_AND_PART = Entry(
        "one equation runs over {whole} and another over its part {part} alone: each wants a loop order of its own",
        ("write two kernels", "index both by {whole}"),
    )
    PART_IN_TILE = Entry(
        "the position along {axis} is needed, and a tile holds several positions of {whole}, each with its own",
        ("block {whole} by 1", "state what depends on {axis} by {whole} itself"),
    )
    GRID_FOLDED = Entry(
        "`{name}` folds over {axis}, so the axis cannot be shared out to work items: each would hold a part of the "
        "fold",
        ("stream {axis} or hold it", "take {axis} out of `grid`"),
    )
    HOLD_NEEDS_EXTENT = Entry(
        "the axis {axis} has an extent known at launch only, so no tile can hold it whole",
        ("make its extent a parameter, or stream it",),
    )
    CONSUMER_COUNT = Entry("this number of consumer warpgroups is not possible", ("use 1 to 4",))
    REGISTER_COUNT = Entry(
        "threads cannot have these numbers of registers: consumers get more than at entry, the producer fewer",
        ("leave `registers` out: the numbers that were measured to be good are the default",),
        "setmaxnreg takes multiples of 8 from 24 to 256 (PTX)",
    )
    CONSUMER_AXIS = Entry(
        "the axis {axis} is not in the grid, so its block cannot be shared out to consumers",
        ("name the axis of an output's rows",),
    )
    NO_PRODUCT = Entry("the equation `{name}` holds no product to place", ("name an equation with a product in it",))
    DISTANCE_TOO_FAR = Entry(
        "`{name}` cannot be that far from the other operations: its operands of one earlier iteration are kept, no "
        "more",
        ("use a distance of 1",),
    )
    STEP_ORDER = Entry(
        "`{reader}` would be computed from `{source}` in an iteration where that is not there yet or no more",
        (
            "make the product that reads it late: `late {reader} by 1`",
            "leave out the directives that move one of the two: `late`, `ahead`, `batch`, `issue`",
        ),
        "a step follows what it reads in the same iteration, or works on the iteration before and precedes it",
    )
    TILE_AT_TWO_DISTANCES = Entry(
        "`{first}` and `{second}` both read the tile {tile}, and one of them works on an earlier iteration",
        ("make both late, or neither", "declare a second tile of the same tensor for one of them"),
        "a slot of a ring is freed when all its readers are done with one iteration",
    )
    NOT_UNDER = Entry(
        "`{name}` cannot be computed under the product of `{product}`: that is awaited before `{name}` begins",
        (
            "make the product late, and issue first what `{name}` needs: `late {product} by 1  issue OTHER, {product}`",
            "leave `under` out",
        ),
        "products are awaited in the order in which they are issued",
    )
    TURNS_ALONE = Entry(
        "there is one consumer, so there are no turns to take", ("leave `take_turns` out, or use more",)
    )
    SKIP_ALONE = Entry(
        "there is one consumer, so no block is for the rows of others alone", ("leave `skip_rows` out, or use more",)
    )
    NOTHING_STALE = Entry(
        "no scaled sum here can keep an old exponent",
        ("leave `stale_max` out: it needs a softmax whose weights are summed or multiplied, and nothing else",),
    )
    WALK_NOT_STREAMED = Entry("the axis {axis} is not streamed, so no loop walks it", ("name the streamed axis",))
    ORDER_AXES = Entry("the order of work items must name each axis of the grid once", ("name all of them",))
    GROUP_AXIS = Entry("the axis {axis} is not in the grid, so its items cannot be grouped", ("name a grid axis",))
    ALIAS_NAMES = Entry(
        "only an output's staging buffer can use the bytes of a tile: {buffer} and {host} are not such a pair",
        ("write `alias OUTPUT, TILE`",),
    )
    ALIAS_ROOM = Entry(
        "the bytes of {host} cannot hold the store of {buffer}",
        (
            "the tile must be loaded once an item into one stage, in a part for each consumer, and be as large as the "
            "output's rows",
        ),
    )
    PLACE_OF_TILE = Entry(
        "products read the tile {tile} from shared memory, where it is moved to",
        ("leave this out: what an equation computes can be placed, such as softmax weights",),
    )
    PLACE_NOTHING = Entry(
        "no product has a first factor that {name} computes",
        ("name the equation whose values, cast to 16 bits, a product reads beside a tile",),
    )
    HINT_OF_ROWS = Entry(
        "{output} is stored in rows from registers, which takes no hint",
        ("store it by TMA: `via {output} tma`", "leave the hint out"),
    )
    VECTOR_STORE = Entry(
        "{output} has one number a row, which threads store by themselves: TMA would store a tile of them",
        ("leave out what sends it through shared memory: `via {output} tma`, `alias {output}`",),
    )
    HINT_OF_COPIES = Entry(
        "{tile} is copied by threads, which give no hints",
        ("bring it by TMA: leave out `via {tile} cp_async` or `via {tile} auto`", "leave the hint out"),
    )
    OOB_TYPE = Entry(
        "{tile} cannot be filled with NaN: no `fma.rn.oob` makes zeros of it again",
        ("leave `oob` out: zeros fill the tile, and selects keep them from where they matter",),
        "fma.rn.oob is there for f16 and bf16 alone",
    )
    OOB_PRODUCT = Entry(
        "{tile} cannot be filled with NaN: the product of {product} would meet it, for whole rows",
        ("leave `oob` out: zeros are what a product wants outside a tensor",),
        "products of the tensor cores (wgmma) have no form that makes zeros of such a NaN",
    )
    OOB_COPIES = Entry(
        "{tile} is copied by threads, which fill with zeros",
        ("bring it by TMA: leave out `via {tile} cp_async` or `via {tile} auto`", "leave `oob` out"),
    )
    OOB_READ = Entry(
        "`{directive}` asks that {tile} is read as a factor in `{type}(a * b + c)` alone, and here it is not",
        (
            "write the rounding: `{type}({tile}[…] * w[…])`, a product, a sum, or one of each, of numbers that are "
            "{type} themselves",
            "make others {type} by a rounding of their own: `{type}(scale)`",
            "leave `oob` out",
        ),
        "fma.rn.oob multiplies and adds once, rounds to the type of its operands, and knows the NaN in its factors",
    )
    OOB_OF_VECTOR = Entry(
        "{tile} is read element by element, without the TMA engine, and nothing fills it",
        ("leave `oob` out",),
    )
    VIA_OF_VECTOR = Entry(
        "{tile} is read element by element, without shared memory, and has no mover",
        ("leave the directive out", "choose movers for tiles that a product reads"),
    )
    HINT_OF_VECTOR = Entry(
        "{tile} is read element by element, without the TMA engine, and takes no hint",
        ("leave the hint out", "give hints to tiles that a product reads"),
    )
    MULTICAST_AXIS = Entry(
        "{axis} is not in the grid, so no CTAs stand next to each other along it",
        ("name a grid axis that the tile does not depend on",),
    )
    MULTICAST_DEPENDS = Entry(
        "{tile} is another one at each position of {axis}, so CTAs along it have nothing to share",
        ("name a grid axis that the tile does not depend on",),
    )
    MULTICAST_OF_COPIES = Entry(
        "{tile} is copied by threads, each CTA's for itself",
        ("bring it by TMA: leave out `via {tile} cp_async` or `via {tile} auto`", "leave `multicast` out"),
    )
    MULTICAST_OF_VECTOR = Entry(
        "{tile} is read element by element, without shared memory, so nothing is loaded for others",
        ("leave `multicast` out", "name a tile that a product reads"),
    )
    MULTICAST_DEALT = Entry(
        "with {why} a CTA's items are dealt to it alone, so no cluster goes through the same ones to share {tile}",
        ("write `persistent static`, or no `persistent`, for tensors without ragged sizes", "leave `multicast` out"),
    )
    MULTICAST_APART = Entry(
        "CTAs along {axis} cannot load {tile} together: {what} depends on where along {axis} a CTA is",
        ("name an axis of the rows, or one that the domain does not bound the loop by", "leave `multicast` out"),
    )
    MULTICAST_SHARE = Entry(
        "the {count} CTAs of a cluster cannot share out {tile}, of which each loads a part",
        ("choose another block", "share it among fewer CTAs: `by 2`"),
    )
    CLUSTER_SIZE = Entry(
        "a cluster of so many CTAs cannot be had",
        ("share tiles among fewer CTAs: `by 2`", "leave one `multicast` out"),
    )
    CLUSTER_COUNTS = Entry(
        "a cluster has one number of CTAs along {axis}",
        ("write the same number for each tile shared along {axis}",),
    )
    DIRECTIVE_UNSUPPORTED = Entry(
        "the directive `{directive}` is understood, but not carried out for {target} yet",
        ("leave it out: it changes speed, never results",),
    )
    # ---- plan and resources (tilegen.checks, tilegen.ir) ----
    PLAN_JSON = Entry(
        "this is no plan that tilegen wrote: {reason}",
        ("write the plan again with `tilegen build`",),
    )
    INVALID_PLAN = Entry(
        "the plan made from this breaks its own rules, at `{line}`: {reason}",
        (REPORT, "try another schedule"),
    )
    SHARED_MEMORY_FULL = Entry(
        "the tiles of {kernel} need {over} bytes more shared memory than there is; {largest} takes most",
        ("{shrink}", "use smaller blocks", "{share}"),
        "a CTA has at most 232448 bytes of shared memory on sm_90, and 166912 on sm_80",
    )
    TOO_MANY_THREADS = Entry(
        "{warpgroups} warpgroups of 128 threads for the {role} are too many for one CTA",
        ("use fewer consumers, and a smaller block for their axis",),
        "a CTA has at most 1024 threads",
    )
    TOO_MANY_BARRIERS = Entry(
        "the consumers need more named barriers than there are, to take turns and to meet",
        ("use fewer consumers", "drop `take_turns`"),
        "a CTA has 16 named barriers",
    )
    REGISTER_FILE_FULL = Entry(
        "the registers given to producer and consumers are more than the CTA has: the kernel would never start",
        ("give fewer `registers`", "drop `registers` from the schedule, and let tilegen split them"),
        "setmaxnreg: the sum of threads x registers is at most threads x registers at entry",
    )
    REGISTERS_FULL = Entry(
        "here a thread of the {role} holds more values than its registers take; {largest} takes most",
        (
            "use smaller blocks, or more consumers for the same block",
            "{more}",
            "{shorter}",
        ),
        "values that do not fit go to memory, and the products wait for them",
    )
    GRID_TOO_LARGE = Entry(
        "{kernel} would need too many CTAs at these sizes",
        ("use larger blocks", "make the schedule `persistent static`"),
        "a grid has at most 2**31 - 1 CTAs",
    )
    GRID_CLUSTERS = Entry(
        "the CTAs of {kernel} are no whole clusters at these sizes",
        (REPORT, "leave `multicast` out"),
        "a grid is made of whole clusters",
    )
    PIPELINE_DEADLOCK = Entry(
        "the kernel would wait for ever here: {why}",
        (REPORT, "try another schedule"),
        "every wait is met by an arrival that does not itself depend on the wait",
    )
    PIPELINE_BYTES = Entry(
        "{ring}: the bytes loaded into a slot are not those that its barrier expects",
        (REPORT, "try another schedule"),
        "a full barrier's phase ends when exactly the expected bytes have come",
    )
    PIPELINE_ARRIVALS = Entry(
        "{who} arrives at the {barrier} for round {generation} while it counts round {current}",
        (REPORT, "try another schedule"),
        "an arrival counts in whatever phase the barrier is in",
    )
    PIPELINE_LAPPED = Entry(
        "{who} may miss round {generation} of the {barrier}: the next round can end before it looks",
        (REPORT, "try another schedule"),
        "a wait sees a phase's parity only, so no phase may end twice around it",
    )
    PIPELINE_SKIPPED = Entry(
        "{who} may take an older round of the {barrier} for round {generation}: it does not know that the one before "
        "is over",
        (REPORT, "try another schedule"),
        "a wait sees a phase's parity only, so the phase before is known to be over",
    )
    PIPELINE_UNORDERED = Entry(
        "{statement}: nothing orders this access of {who} to shared memory after an earlier one",
        (REPORT, "try another schedule"),
        "two accesses to the same bytes, one of them a write, are ordered by barriers",
    )
    PIPELINE_STALE = Entry(
        "{statement}: {who} reads shared memory that does not hold what it is meant to read",
        (REPORT, "try another schedule"),
        "a slot is read in the round in which it was filled",
    )
    PIPELINE_ACCUMULATOR = Entry(
        "{statement}: {who} reads or adds to an accumulator that no product of the work item has begun",
        (REPORT, "try another schedule"),
        "the first product of a work item overwrites what the registers hold",
    )
    PIPELINE_FENCE = Entry(
        "{statement}: threads wrote these bytes, and no proxy fence follows before {who} hands them to TMA or the "
        "tensor core",
        (REPORT, "try another schedule"),
        "fence.proxy.async stands between generic writes and asynchronous accesses",
    )
    PIPELINE_TURNS = Entry(
        "{who} hands on the turn before the next warpgroup has taken the last one",
        (REPORT, "try another schedule"),
        "a named barrier counts arrivals, not who they are from",
    )
    PIPELINE_STORES = Entry(
        "{who} ends while TMA still reads what it stores from shared memory",
        (REPORT, "try another schedule"),
        "shared memory is gone when the CTA ends",
    )
    PIPELINE_COPIES = Entry(
        "{who} ends with copies to shared memory that it has not waited for",
        (REPORT, "try another schedule"),
        "shared memory is gone when the CTA ends",
    )
    PIPELINE_UNREAD = Entry(
        "{ring} is filled once more often than it is waited for, and the CTA may end under the load",
        (REPORT, "try another schedule"),
        "every load is waited for before the CTA ends",
    )
    DIVISION_BY_ZERO = Entry(
        "{statement}: at some sizes a position is divided by 0",
        (REPORT, "try another schedule"),
    )
    MOVEMENT_PLACE = Entry(
        "{statement}: elements that do not belong together meet here",
        (REPORT, "try another schedule"),
        "each element is read, combined and stored at the position that the spec gives it",
    )
    MOVEMENT_BOXES = Entry(
        "{statement}: the boxes that fill {ring} are not the tile that is declared",
        (REPORT, "try another schedule"),
        "the boxes of one fill cover one tile, and bring the bytes that they are said to",
    )
    MOVEMENT_OPERAND = Entry(
        "{statement}: a product reads shared memory in another way than the tile lies there",
        (REPORT, "try another schedule"),
        "a matrix descriptor steps through the tile's rows and columns",
    )
    MOVEMENT_FOLD = Entry(
        "{statement}: {why}",
        (REPORT, "try another schedule"),
        "a sum takes in each position of the domain once",
    )
    MOVEMENT_STORE = Entry(
        "{statement}: not the elements of {tensor} that the spec defines are written",
        (REPORT, "try another schedule"),
        "each element of an output's domain is written once, and no other",
    )
    MOVEMENT_BOUNDS = Entry(
        "{statement}: elements outside {tensor} are read",
        (REPORT, "try another schedule"),
        "threads read and write inside tensors: nothing clips them",
    )
    MOVEMENT_MEND = Entry(
        "{statement}: what a scan took out of a tile does not come back where it belongs",
        (REPORT, "try `isolate fast`"),
        "an entry that is no finite number reaches the rows that see it, and no others",
    )
    POISON_FOLD = Entry(
        "{statement}: a {kind} takes in what it must not, or misses what it must take in",
        (REPORT, "try another schedule"),
        "a fold reads its identity at every point outside the domain, and the value at each point inside",
    )
    POISON_PRODUCT = Entry(
        "{statement}: a row of this product takes in a position that it must not see, or misses one",
        (REPORT, "try another schedule"),
        "at a position outside the domain one factor is 0 and the other a finite number: 0 * NaN is NaN",
    )
    POISON_STORE = Entry(
        "{statement}: an element of {tensor} is stored that does not hold the spec's value",
        (REPORT, "try another schedule"),
        "only the spec's value is stored",
    )
    POISON_VOTE = Entry(
        "{statement}: a vote depends on rows that are not stored",
        (REPORT, "leave `stale_max` out"),
        "rows that are not stored do not vote",
    )
    # ---- building (tilegen.targets) ----
    TMA_RANK = Entry(
        "{tensor}: a TMA tensor map has one to five dimensions",
        ("index {tensor} by fewer axes in one tile, or choose `via {tensor} rows`",),
        "cuTensorMapEncodeTiled: tensorRank",
    )
    TMA_ADDRESS = Entry(
        "{tensor} does not start on a {unit}-byte boundary: it is {past} bytes past one, and TMA cannot reach there",
        ("pass an array that is not a slice starting inside a row", "use an array of its own in place of {tensor}"),
        "cuTensorMapEncodeTiled: globalAddress is a multiple of 16, and of 32 where 32 bytes are interleaved",
    )
    TMA_EXTENT = Entry(
        "{tensor}: the extent of {axis} is out of TMA's range",
        ("pass an array whose {axis} has between 1 and 2**31 positions",),
        "cuTensorMapEncodeTiled: globalDim",
    )
    TMA_STRIDE_ALIGNMENT = Entry(
        "{tensor}: neighbours along {axis} do not lie a multiple of {unit} bytes apart, and TMA cannot step so",
        (
            "let threads copy the tile where TMA cannot: `via TILE auto` in the schedule",
            "pad the rows of {tensor} so that each is a multiple of {unit} bytes long",
            "under `tilegen run`, choose sizes that make them so: a multiple of 8 for 16-bit numbers, of 4 for f32",
        ),
        "cuTensorMapEncodeTiled: globalStrides are multiples of 16, and of 32 where 32 bytes are interleaved",
    )
    TMA_STORE_ROWS = Entry(
        "{tensor}: rows along {axis} do not end with whole 16 bytes, and a TMA store would write past them",
        (
            "write `via {tensor} rows` in the schedule: rows are stored from registers, and end anywhere",
            "choose an extent of {axis} that is a multiple of {unit}",
        ),
        "no manual says so, but on an H200 a TMA store writes the last 16 bytes of a row whole, past the tensor's end",
    )
    TMA_STRIDE_RANGE = Entry(
        "{tensor}: the stride of {axis} is out of TMA's range",
        (
            "copy {tensor} into a contiguous array",
            "if {tensor} is an output, write `via {tensor} rows` in the schedule: rows may lie anywhere",
        ),
        "cuTensorMapEncodeTiled: globalStrides are below 2**40",
    )
    TMA_BOX = Entry(
        "{tensor}: one TMA box takes at most 256 positions of {axis}",
        ("block {axis} by at most 256, or a multiple of a number that is",),
        "cuTensorMapEncodeTiled: boxDim",
    )
    TMA_BOX_BYTES = Entry(
        "{tensor}: the inner side of a TMA box, along {axis}, is not a multiple of 16 bytes",
        ("give {axis} an extent that fills whole 16-byte chunks",),
        "cuTensorMapEncodeTiled: boxDim[0] times the element size is a multiple of 16",
    )
    TMA_BOX_ROOM = Entry(
        "{tensor}: one TMA box is larger than the shared memory that it goes to",
        ("use smaller blocks for the axes of {tensor}",),
        "a CTA on sm_90 has at most 232448 bytes of shared memory",
    )
    TMA_INTERLEAVE = Entry(
        "{tensor}: interleaving by {bytes} bytes does not go with the rest of the tensor map",
        ("leave the interleaving out: tilegen's own tensor maps have none",),
        "cuTensorMapEncodeTiled: interleaved tensors have three to five dimensions, and 32 bytes ask for a swizzle of "
        "32",
    )
    TMA_ELEMENT_STRIDE = Entry(
        "{tensor}: TMA takes every first to eighth element of {axis}, no fewer",
        ("index {tensor} with a coefficient of at most 8 along {axis}",),
        "cuTensorMapEncodeTiled: elementStrides",
    )
    TMA_SWIZZLE = Entry(
        "{tensor}: the inner side of the box, along {axis}, is wider than the swizzle",
        ("split {axis} into parts as wide as the swizzle",),
        "cuTensorMapEncodeTiled: the inner box side is at most the swizzle span",
    )
    TMA_FILL = Entry(
        "{tensor}: only floating types can be filled with NaN outside the tensor",
        ("fill {tensor} with zero",),
        "cuTensorMapEncodeTiled: oobFill",
    )
    NVRTC_MISSING = Entry(
        "the CUDA compiler library NVRTC cannot be loaded: {reason}",
        ("pip install nvidia-cuda-nvrtc",),
    )
    NVRTC_FAILED = Entry(
        "the CUDA compiler library NVRTC gave up: {reason}",
        ("install a newer nvidia-cuda-nvrtc (13.0 or later)",),
    )
    CUDA_COMPILE = Entry(
        "the CUDA text made from this does not compile: {reason}",
        (REPORT, "try another schedule"),
    )
    MMA_SERIALISED = Entry(
        "the compiler runs the products one after another here instead of overlapping them, due to {reason}",
        ("use smaller blocks or more consumers", "give the consumers more registers", "drop the directive named here"),
        "no product may be serialised: it would not run as planned",
    )
    WAIT_INJECTED = Entry(
        "the compiler put a {what} of its own here: {reason}",
        ("use smaller blocks or more consumers", "drop the directive named here"),
        "every wait is one of the plan's",
    )
    SET_REGISTERS_IGNORED = Entry(
        "the compiler ignores the register split between producer and consumers: {reason}",
        ("drop `registers` from the schedule",),
        "setmaxnreg needs a known register count at entry",
    )
    DISASSEMBLER_MISSING = Entry(
        "the disassembler nvdisasm is not installed",
        ("pip install nvidia-cuda-nvdisasm",),
    )
    DISASSEMBLER_FAILED = Entry(
        "nvdisasm cannot read the machine code: {reason}",
        ("install an nvidia-cuda-nvdisasm at least as new as nvidia-cuda-nvrtc",),
    )
    GATE_COUNT = Entry(
        "{loop}: the machine code does not hold the {what} that the plan has",
        ("drop the directive named here, or choose smaller blocks",),
        "SASS gate: products, waits and fences of each step are those of the plan",
    )
    GATE_LOCAL_MEMORY = Entry(
        "{loop}: the registers do not suffice, values go through memory in every step",
        (
            "use smaller blocks or more consumers",
            "give the consumers more `registers` (hopper), or warps 16 rows: `warp_rows 16` (sm_80)",
        ),
        "SASS gate: no local memory in a consumer's streamed loop",
    )
    GATE_OVERHEAD = Entry(
        "{loop}: the machine code spends more {what} on every step than the plan accounts for",
        ("choose smaller blocks, or more consumers", "state conditions on positions in whole numbers, as a `domain`"),
        "SASS gate: at most 4 moves to uniform registers and 8 register moves a step; a note, since the code is right",
    )
    GATE_ORDER = Entry(
        "{loop}: the compiler changed the order of products and waits",
        ("drop the directive that orders them",),
        "SASS gate: groups of products and waits follow each other as planned",
    )
    GATE_UNDER = Entry(
        "{loop}: {statement} does not run under {product}: too few {opcode} stand before the wait for it",
        ("put {product} into a `batch` with the step's other product, in place of `issue` and `under`",),
        "SASS gate: what the plan puts under a product stands between its issue and its wait",
    )
    GATE_LOOP_UNKNOWN = Entry(
        "the machine code has a loop with products at {address}, and the plan has none",
        (REPORT,),
        "SASS gate: loops with products are those of the plan",
    )
    GATE_LOOP_MISSING = Entry(
        "{loop}: the machine code has no such loop",
        (REPORT,),
        "SASS gate: loops with products are those of the plan",
    )
    GATE_EVIDENCE = Entry(
        "the machine code has too few {opcode} instructions",
        (REPORT,),
        "SASS gate: the plan's use of the hardware is in the machine code",
    )
    GATE_REGISTERS = Entry(
        "the machine code splits the registers otherwise than the plan",
        (REPORT,),
        "SASS gate: setmaxnreg as planned",
    )
    # ---- launching (tilegen.runtime) ----
    NOT_AN_ARRAY = Entry(
        "{tensor} is given as {type}, which is no array of numbers in memory",
        ("pass a torch, CuPy or numpy array, or any object with __dlpack__ or __cuda_array_interface__",),
    )
    SIZE_VALUE = Entry(
        "the size {size} is given as something that is no whole number",
        ("pass {size}= as a whole number, or leave it out where the shapes of the arrays tell",),
    )
    NO_VARIANT = Entry(
        "no schedule of {kernel} is for these sizes",
        ("add a schedule without a condition on sizes behind the others",),
        "the first schedule whose condition holds is taken",
    )
    SEVERAL_VARIANTS = Entry(
        "{kernel} has {count} variants, each of which has this for itself",
        ("ask one of `kernel.variants`, or `kernel.variant(…)`, which takes the sizes of a launch",),
    )
    UNKNOWN_ARGUMENT = Entry(
        "{kernel} has no argument {name}",
        ("its arguments are {known}",),
    )
    ARGUMENTS_BY_NAME = Entry(
        "{kernel} takes its arguments by name only",
        ("call it as `kernel({call})`",),
    )
    MISSING_ARRAY = Entry(
        "{kernel} needs the input {tensor}",
        ("pass {tensor}=",),
    )
    ARRAY_RANK = Entry(
        "{tensor} has the wrong number of dimensions",
        ("reshape {tensor} to [{dims}]",),
    )
    ARRAY_DTYPE = Entry(
        "{tensor} holds elements of the wrong type",
        ("convert {tensor} to {dtype}", "compile the kernel for the type that {tensor} has, if a parameter sets it"),
    )
    ARRAY_DEVICE = Entry(
        "{tensor} and {other} are on different devices",
        ("move {tensor} to {device}",),
    )
    ARRAY_EXTENT = Entry(
        "dimension {dim} of {tensor}, which is {expression}, {why}",
        ("pass arrays whose shapes agree with the spec",),
    )
    ARRAY_CHUNK = Entry(
        "dimension {dim} of {tensor} cannot be moved in parts of {chunk} elements",
        ("pad it to a multiple of {chunk}",),
    )
    ARRAY_INNER_STRIDE = Entry(
        "the elements of {tensor} along its dimension {dim} are not next to each other in memory",
        ("copy {tensor} into a contiguous array", "store it so that dimension {dim} is the contiguous one"),
    )
    ARRAY_BACKWARDS = Entry(
        "{tensor} lies backwards in memory along its dimension {dim}, and TMA steps forwards only",
        (
            "copy {tensor} into a contiguous array",
            "let threads copy the tile: `via TILE cp_async` in the schedule",
            "if {tensor} is an output, write `via {tensor} rows` in the schedule: rows may lie anywhere",
        ),
        "cuTensorMapEncodeTiled: globalStrides are not negative",
    )
    ARRAY_ALIGNMENT = Entry(
        "the rows of {tensor} are stored {bytes} bytes at a time, and {what} is not a multiple of that",
        (
            "pass an array that starts on a multiple of {bytes} bytes, as do its rows",
            "under `tilegen run`, choose sizes that make them so: a multiple of 8 for 16-bit numbers, of 4 for f32",
        ),
    )
    COPY_ALIGNMENT = Entry(
        "{tensor} is copied {bytes} bytes at a time, and {what} is not a multiple of that",
        ("take the variant of the kernel for such arrays: a call of the kernel does by itself",),
    )
    ARRAY_ELEMENT_ALIGNMENT = Entry(
        "{tensor} has elements of {bytes} bytes, and {what} is not a multiple of that",
        ("copy {tensor} into an array of its own",),
    )
    ARRAY_GRADIENT = Entry(
        "{tensor} requires a gradient, and a kernel does not hand one back",
        (
            "call the kernel under `torch.no_grad()`, or pass `{tensor}.detach()`",
            "to have gradients, call it in the `forward` of a `torch.autograd.Function` whose `backward` you write",
        ),
        "PyTorch would go on as though the outputs did not depend on {tensor}",
    )
    RAGGED_STARTS = Entry(
        "{starts} does not say where the sequences of {size} start",
        (
            "give the running sums of the lengths, 0 in front",
            "on a GPU it is the kernel that finds this: the outputs of that launch hold nothing",
        ),
        "sequences are stored one behind the other, so that each begins where the one before it ends",
    )
    OUTPUT_OVERLAP = Entry(
        "several positions of the output {tensor} share one place in memory: its dimension {dim} has stride 0",
        ("pass an output that is not expanded",),
    )
    OUTPUT_UNWRITTEN = Entry(
        "{kernel} has nothing to do at these sizes, and the output {output}, which has elements, would stay as it is",
        ("compute {output} by a kernel of its own", "do not call {kernel} for sizes of 0"),
    )
    OUTPUT_READ_ONLY = Entry(
        "the output {tensor} is given as an array that may not be written",
        ("pass a writable array", "leave {tensor} out: the call then makes one"),
    )
    SIZE_UNKNOWN = Entry(
        "the size {size} does not follow from the shapes of the arrays",
        ("pass {size}= as a number", "pass an output that it is an extent of"),
    )
    SIZE_RANGE = Entry(
        "the size {size} is out of range",
        ("pass arrays with fewer than 2**31 positions along every dimension",),
    )
    INTEGER_RANGE = Entry(
        "{kernel} computes `{expression}` in 32-bit integers, and it does not fit them at these sizes and scalars",
        (
            "pass smaller values: this one depends on {names}",
            "to leave positions unlimited, guard the clause of the domain by an `if` and switch it off",
        ),
        "positions and counts are int32 in a kernel, and would wrap around without a word",
    )
    OUTPUT_NOT_ALLOCATED = Entry(
        "{kernel} cannot make the output {tensor} itself: {reason}",
        ("pass {tensor}= as an array to write into",),
    )
    NO_DRIVER = Entry(
        "there is no CUDA driver or no GPU here: {reason}",
        ("pass numpy arrays: the kernel's PTX then runs on the CPU",),
    )
    TUNED_TARGET = Entry(
        "tuned schedules are kept for hopper, and {target} is asked for", ("leave out `tuned`", "compile for hopper")
    )
    WRONG_GPU = Entry(
        "{device} is a {name}, and this kernel needs a {machine}",
        ("run it on an H100 or H200", "pass numpy arrays: the kernel's PTX then runs on the CPU"),
        "the code of the target hopper is made for sm_90a, which no other compute capability runs",
    )
    DRIVER_FAILED = Entry(
        "the CUDA driver failed to {what}: {reason}",
        ("look for an earlier kernel that failed: its error appears at the next call",),
    )
    SCALAR_MISSING = Entry(
        "the scalar {scalar} has no default and is not given",
        ("pass {scalar}=", "give it a default in the spec: `scalar {scalar}: {dtype} = …`"),
    )
    SCALAR_VALUE = Entry(
        "{value} is no value of the scalar {scalar}",
        ("pass a number that fits {dtype}",),
    )
    SCALAR_CONSTRAINT = Entry(
        "the scalar {scalar} is {value}, which its constraint rules out",
        ("pass a value that is {constraint}", "change the constraint, if the equations allow it"),
        "a constraint on a scalar is relied upon when the kernel is made, so it is checked at every launch",
    )
    # ---- emulation (tilegen.emulate) ----
    PTX_SYNTAX = Entry(
        "PTX line {line}: {what}",
        ("give the emulator PTX that NVRTC wrote for sm_90a",),
    )
    PTX_UNKNOWN_INSTRUCTION = Entry(
        "PTX line {line}: the emulator does not know {instruction}: {why}",
        ("run the kernel on a GPU, or use an instruction that docs/emulator.md lists",),
    )
    EMULATED_LAUNCH = Entry(
        "the emulated launch is not possible: {what}",
        ("compare the launch with the kernel's parameters and launch bounds",),
    )
    EMULATED_ADDRESS = Entry(
        "emulated global memory: {what}",
        ("map the array with GlobalMemory.alloc first",),
    )
    EMULATED_FAULT = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("on a GPU this is an error, or undefined: look at the values that reach this line",),
    )
    EMULATED_RACE = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("look for the wait, the arrival or the barrier that is to stand between the two",),
        "accesses to the same bytes of shared memory happen in any order unless an mbarrier, a named barrier or a wait "
        "for an engine's group orders them",
    )
    EMULATED_PROXY = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("put fence.proxy.async between the write and what orders it before the access",),
        "TMA and the tensor cores see what threads wrote to shared memory once a fence.proxy.async lies between",
    )
    EMULATED_PHASE = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the bytes that the mbarrier expects with those of all boxes that signal it",),
        "a phase ends when all arrivals have come and no expected byte is outstanding; what lands later counts for the "
        "next",
    )
    EMULATED_ARRIVAL = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the number of arrivals that the mbarrier begins with with those of all threads",),
        "an arrival counts in the phase that runs when it comes: who arrives in the next one has to wait for this one",
    )
    EMULATED_BARRIER = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the number of the barrier with those of all threads: who meets at one meets at no other",),
        "whoever comes to a named barrier is counted: a second meeting has to follow the first",
    )
    EMULATED_TILE = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        (
            "compare the coordinates of the loads with the tile's declaration",
            "compare the product's descriptors with the tile's layout",
            "compare what decides how many steps a sum has with its extent",
        ),
        "a box anywhere inside a tensor is right to TMA: which one is meant, the spec declares",
    )
    EMULATED_OUTPUT = Entry(
        "nothing has written {output}[{index}] when the launch ends ({count} elements of {output} are left out)",
        ("compare the coordinates and the bounds of the stores with the output's extents",),
    )
    EMULATED_UNWRITTEN = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the bytes of the box or the copies with what is read",),
    )
    EMULATED_IN_FLIGHT = Entry(
        "an instruction {what} (executing {instruction}, PTX line {line}, {where})",
        ("wait for the product's group with wgmma.wait_group first",),
        "a product's accumulator, and its first factor in registers, are the tensor cores' until its group is awaited",
    )
    EMULATED_REGISTER_FENCE = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("put wgmma.fence behind the last instruction that touches them",),
        "wgmma.fence stands before the first product, and between other uses of a product's registers and the product",
    )
    EMULATED_UNAWAITED = Entry(
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("wait for the stores with cp.async.bulk.wait_group before the thread ends",),
        "shared memory is given away when a CTA ends, and a store reads it in its own time",
    )
    EMULATED_HANG = Entry(
        "CTA {cta} hangs: no thread can run.\n  {waits}",
        ("look for the arrival, the bytes or the registers that the lines above miss",),
    )
    EMULATED_STEP_LIMIT = Entry(
        "CTA {cta} is not done after {limit} steps; it is now at {instruction}, PTX line {line}",
        ("a loop may not end, or polls for what never comes", "raise step_limit for a kernel that is only long"),
    )
    # ---- sm_80 (tilegen.passes.synchronise_sm80) ----
    DIRECTIVE_OF_OTHERS = Entry(
        "the directive `{directive}` is not for {target}: {why}",
        ("leave it out: it changes speed, never results",),
    )
    WARP_ROWS = Entry(
        "a warp cannot have so many rows", ("state `warp_rows 16` or `warp_rows 32`", "leave it out: registers decide")
    )
    SM80_UNSUPPORTED = Entry("this is not built for sm_80: {what}", ("build for hopper", "write it in another way"))

    # ---- MLS programs (tilegen.targets.mls, tilegen.emulate.mls) ----
    MLS_SYNTAX = Entry("this is no MLS assembly: {what}", ("see docs/mls.md, section 8, for the form of a line",))
    MLS_PROGRAM = Entry("no MLS machine can run this: {what}", ("docs/mls.md says what each instruction takes",))
    MLS_ARGUMENTS = Entry(
        "{kernel} is launched without {missing}",
        ("give each by its name: {known}",),
        "an array for each tensor, its strides in elements (`A.stride0` is that of A's first dimension), and numbers",
    )
    MLS_CARRY = Entry(
        "{what}",
        ("add the high words with s_addc_u32, right behind the s_add_u32 of the low words",),
        "a 64-bit address lives in two 32-bit registers, and the carry between them is the program's affair",
    )
    MLS_TAIL = Entry(
        "{what}",
        ("branch around the load where its filter reaches the tile's size, and write zeros over the lines",),
        "a filter hides lines from the data, not from the address unit",
    )
    MLS_DIRTY_LDS = Entry(
        "{what}",
        ("load every byte that is read, or write zeros over it, in each generation of its slot",),
        "LDS holds whatever was there before, and 0 * NaN is NaN",
    )
    MLS_PAGE_FAULT = Entry(
        "{what}",
        ("compare base, stride and filter with the tensor's extents: nothing else bounds an access",),
        "nothing in a matrix load's descriptor bounds its accesses",
    )
    MLS_OUTSIDE = Entry(
        "{what}",
        ("compare base, stride and filter with the tensor's extents: nothing else bounds an access",),
        "the page is mapped, so that hardware would not notice",
    )
    MLS_WRONG_ELEMENT = Entry(
        "{what}",
        ("compare the address, the stride, the filter and the place in LDS with what the braces say",),
        "what stands in braces says which elements are moved",
    )
    MLS_RACE = Entry(
        "{what}",
        ("wait with s_waitcnt for what a wave has outstanding, and then meet at s_barrier",),
        "a wait orders one wave; others are ordered by the barrier that follows it",
    )
    MLS_NOT_WAITED = Entry(
        "{what}",
        ("put an s_waitcnt in front of it",),
        "the registers of a load are undefined until it has been waited for",
    )
    MLS_HAZARD = Entry("{what}", ("put an s_nop in between",), "docs/mls.md, section 7")
    MLS_UNINITIALISED = Entry("{what}", ("write the register on every path that leads here",))
    MLS_BAD_ACCESS = Entry("{what}", ("docs/mls.md gives the alignment and range of each address",))
    MLS_STORE = Entry(
        "{what}",
        ("compare the store's addresses and the lanes that EXEC leaves on with the output's extents",),
        "every element of an output is written exactly once",
    )
    MLS_HANG = Entry("{what}", ("let all waves of a workgroup pass the same barriers",))
    MLS_STEP_LIMIT = Entry("{what}", ("a loop may not end",))
    # ---- lowering to MLS (tilegen.passes.synchronise_mls, tilegen.targets.mls) ----
    MLS_COLUMN_OFFSET = Entry(
        "no matrix load can bring the tile {tile}: its columns begin where no 16 bytes of a row of {tensor} do",
        ("shift the index by whole 16 bytes",),
        "the base of a matrix load is a multiple of 16 bytes (docs/mls.md)",
    )
    MLS_UNSUPPORTED = Entry("this is not built for mls: {what}", ("build for hopper", "write it in another way"))
    MLS_LDS = Entry(
        "the tiles do not fit into the LDS of an MLS workgroup, in the smallest blocks that were tried",
        ("state smaller blocks: `schedule mls {{ block … }}`", "hold fewer positions of an axis in a tile"),
        "a workgroup has 64 KiB of LDS (docs/mls.md)",
    )
    MLS_REGISTERS = Entry(
        "a wave has too few {kind} for this, in the smallest blocks that were tried",
        ("state smaller blocks: `schedule mls {{ block … }}`", "compute it in several equations or kernels"),
        "a wave has 102 scalar registers, and 256 vector registers a lane (docs/mls.md)",
    )
    MLS_WAVES = Entry(
        "waves come in groups of four, which share out 64 rows",
        ("state how many: `waves 4`",),
    )
    MLS_PREFETCH = Entry(
        "a streamed tile is brought in time or one block ahead",
        ("`prefetch 2` for two stages, `prefetch 1` for one",),
    )
    MLS_LINES = Entry(
        "matrix loads read the lines of {tensor} in parts of {bytes} bytes, and {what} is not a multiple of that",
        ("under `tilegen run`, choose sizes that make it so: a multiple of 8 for 16-bit numbers, of 4 for f32",),
        "the base of a matrix load is a multiple of 16 bytes (docs/mls.md)",
    )
    # ---- commands (tilegen.cli) ----
    MLS_DEFECT_UNMET = Entry(
        "at these sizes nothing meets the defect {defect}, and the results are right",
        (
            "leave --size out: the sizes chosen then meet it",
            "where the spec itself has default sizes, give others: a last block that is cut, and several blocks",
        ),
    )
    BAD_USAGE = Entry("{what}", ("see `{command} --help`",))
    SIZES_TOO_LARGE = Entry(
        "the arrays of {kernel} do not fit into this machine's memory at these sizes, {sizes}",
        ("give smaller sizes: `--size {size}=…`",),
    )
    NOT_BOXED = Entry(
        "{name} is {what}, so no box of TMA moves it",
        (
            "name what boxes move: {known}",
            "{by_tma}",
        ),
    )
    CANNOT_PRINT = Entry(
        "the results cannot be printed: {reason}",
        ("correct what stdout is redirected to",),
    )
    CANNOT_WRITE = Entry(
        "the output files cannot be written to {folder}: {reason}",
        ("choose another place: with `-o`, or as the file that the option names",),
    )
    CACHE_UNREADABLE = Entry(
        "the cache in {folder} cannot be read or cleared: {reason}",
        ("correct what is wrong with the folder", "set TILEGEN_CACHE to another folder, or to `off`"),
    )
    TUNED_STORE = Entry(
        "the schedules kept in {folder} cannot be read or changed: {reason}",
        ("correct what is wrong with the folder", "set TILEGEN_TUNED to another folder"),
    )
    TUNE_FAILED = Entry(
        "no schedule of {kernel} could be timed: {reason}",
        ("`tilegen check` tells what is wrong with the spec's own schedule", "give other sizes by --size"),
    )
    RESULT_WRONG = Entry(
        "the kernel's {output} is not what its equation says, first at [{place}]",
        ("this is a fault of tilegen, not of the spec: report it with the spec, the sizes and the seed",),
    )
    NOT_A_KERNEL = Entry(
        "{file} holds no kernel: {reason}",
        ("give a file that `tilegen build` or a CUDA compiler wrote",),
    )


def fault(
    code: Code,
    span: Span | None,
    *,
    got: str = "",
    wanted: str = "",
    notes: tuple[Note, ...] = (),
    **fields: object,
) -> Diagnostic:
    """A diagnostic with the entry's message and fixes filled in from `fields`. A fix that is empty then is none."""
    entry = code.value
    return Diagnostic(
        code=code.name,
        span=span,
        message=entry.message.format(**fields),
        got=got,
        wanted=wanted,
        notes=notes,
        fixes=tuple(filter(None, (f.format(**fields) for f in entry.fixes))),
        rule=entry.rule,
        internal=entry.internal,
    )


def fail(
    code: Code,
    span: Span | None,
    *,
    got: str = "",
    wanted: str = "",
    notes: tuple[Note, ...] = (),
    **fields: object,
) -> NoReturn:
    """Raise a TilegenError holding this one diagnostic."""
    raise TilegenError((fault(code, span, got=got, wanted=wanted, notes=notes, **fields),))
