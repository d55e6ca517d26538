"""What no plan is made of: equations, tiles and blocks that no kernel is built for (tilegen.passes)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(
        Code.TARGET_UNSUPPORTED,
        "there is no plan for {target} here",
        (
            "compile for hopper or sm_80",
            "for mls there are `tilegen build --target mls` and `tilegen run --target mls`",
        ),
    ),
    Entry(
        Code.RAGGED_BATCHES,
        "an axis along {over} is to say which sequence is meant, and it is not the only one or there is none",
        ("let every ragged size differ along one size, and index that by one axis",),
    ),
    Entry(
        Code.RAGGED_TENSOR,
        "{tensor} cannot be stored as one axis of tokens",
        ("give it one dimension of a ragged size, and one of its sequences",),
        "sequences of different lengths are stored one behind the other, along one dimension",
    ),
    Entry(
        Code.RAGGED_INDEX,
        "{tensor} is read at a sequence other than the one at hand",
        ("index its dimension of sequences by {axis} alone",),
        "a kernel works on one sequence of {size} at a time",
    ),
    Entry(
        Code.RAGGED_GRID,
        "the items of {kernel} cannot be made of sequences of different lengths",
        ("let {axis} be an axis of the grid with a block of 1", "let only one axis of the grid be ragged"),
    ),
    Entry(
        Code.RAGGED_DEAL,
        "how many items there are depends on the lengths of sequences, and only a table can deal such items out",
        ("write `persistent table`, or leave it out: it is what a ragged kernel does",),
    ),
    Entry(
        Code.RAGGED_GROUP,
        "items cannot be grouped by {axis}, which the sequences' blocks are made of",
        ("group by another axis of the grid, such as the heads",),
    ),
    Entry(
        Code.RAGGED_STORE,
        "the output {output} cannot leave by TMA: the next sequence stands right behind a block",
        ("leave out `via {output} tma`, `stages {output}` and `alias {output}`: rows are stored from registers",),
        "a TMA store writes whole boxes, and cuts them at the tensor's end alone",
    ),
    Entry(
        Code.STORE_CHUNKS,
        "the output {output} cannot leave by TMA: its rows do not end with whole 16 bytes",
        ("write `via {output} rows`, without `stages {output}`: rows are stored from registers, and end anywhere",),
        "no manual says so, but on an H200 a TMA store writes the last 16 bytes of a row whole, past the tensor's end",
    ),
    Entry(
        Code.LOOKUP_UNSUPPORTED,
        "`{name}` is read at a position that a table gives, and no kernel is built for that yet",
        ("copy the rows in question into one tensor first",),
    ),
    Entry(
        Code.FOLD_OF_CONSTANT,
        "what is folded does not vary along {axes}",
        ("multiply by the extent instead, or fold over an axis that it has",),
    ),
    Entry(
        Code.FOLD_OVER_PART,
        "a fold over {axes} runs over a part of the split axis {whole}, and no kernel is built for that yet",
        ("give the two parts dimensions of their own",),
    ),
    Entry(
        Code.RENAMED_READ,
        "`{name}` is read with another index than the one it is defined with, and no kernel is built for that yet",
        ("read it as `{name}[{axes}]`", "declare another tile of the same tensor with the axes that are meant"),
    ),
    Entry(
        Code.READ_OF_OUTPUT,
        "the output {name} is read by another equation",
        ("name the value first, and define the output by it",),
    ),
    Entry(
        Code.DOMAIN_CUTS_PRODUCT,
        "the domain cuts through the product `{product}`, and none of its factors can be masked there",
        ("multiply by a value that is zero outside the domain", "leave the clause out and mask the result"),
    ),
    Entry(
        Code.SCAN_SHARED,
        "the domain leaves out positions of {tile} that `{product}` multiplies by zeros: what is no finite number must "
        "leave the tile for that, and it is read in another way too",
        (
            "declare another tile of the same tensor for this product",
            "write `isolate fast` if the tensor holds finite numbers only",
        ),
    ),
    Entry(
        Code.SCAN_HELD,
        "the domain leaves out positions of {axis}, where `{product}` multiplies {tile} by zeros: what is no finite "
        "number there would reach every row, and only tiles contracted along a streamed axis are looked through",
        (
            "make it the streamed axis: `stream {axis}`",
            "write `isolate fast` if the tensor holds finite numbers only",
        ),
    ),
    Entry(
        Code.NESTED_STREAMS,
        "the axes {axes} are all streamed, and a kernel has one streamed axis so far",
        ("give one of them a compile-time extent of at most 256, so that it is held",),
    ),
    Entry(
        Code.NO_ROWS,
        "no axis of {kernel} can be shared out to the {workers}",
        (
            "an output needs an axis of run-time extent that a tile has in its brackets and that is no part of a split",
            "kernels of one dimension are not compiled yet: give tensors an outer dimension, which may be of size 1",
        ),
    ),
    Entry(
        Code.TOO_MANY_DIRECTIONS,
        "{what} would run along too many axes at once: {axes}",
        (
            "block those by 1 that are too many",
            "read a value without the rows from a tensor that another kernel writes",
        ),
    ),
    Entry(
        Code.INDEX_NOT_AFFINE_UNIT,
        "an axis that a tile holds several positions of must index its dimension alone, with coefficient 1",
        ("block the axis by 1, or index by the axis itself",),
    ),
    Entry(
        Code.INNER_NOT_TILED,
        "the innermost dimension of {tensor} is fixed in the tile {tile}, and a box needs 16 contiguous bytes",
        ("give the innermost dimension an axis of the tile",),
    ),
    Entry(
        Code.INNER_EXTENT,
        "the tile {tile} holds a row of {axis} that no number of whole lines stores",
        ("block {axis} by whole lines", "where its extent is known, let it be a multiple of 8"),
        "rows lie in lines of 32, 64 or 128 bytes, and are read by 8 columns",
    ),
    Entry(
        Code.RANK,
        "the tensor {tensor} has too many dimensions for a tensor map",
        ("merge dimensions before the call",),
        "a tensor map has 1 to 5 dimensions (cuTensorMapEncodeTiled)",
    ),
    Entry(
        Code.K_STEP,
        "the product `{product}` contracts a part of {axis} that is no whole number of steps",
        ("block {axis} by a multiple of 16",),
        "an instruction of 16-bit types contracts 16 positions at a time",
    ),
    Entry(
        Code.TMA_COLUMN_OFFSET,
        "TMA cannot bring the tile {tile}: its columns begin where no 16 bytes of a row of {tensor} do",
        ("let threads copy the tile: `via {tile} cp_async` in the schedule", "shift the index by whole 16 bytes"),
        "a TMA load whose innermost coordinate is no multiple of 16 bytes ends the kernel as an illegal instruction",
    ),
    Entry(
        Code.ATOM_ROWS,
        "the tile {tile} holds a number of positions of {axis} that is not stored in whole patterns",
        ("block {axis} by a multiple of 8",),
        "tiles are stored by 8 rows",
    ),
    Entry(
        Code.MMA_WIDTH,
        "the product `{product}` is too wide, or not a whole number of columns",
        ("block its second axis by a multiple of 8, at most 256",),
        "a product has 8 to 256 columns, in steps of 8",
    ),
    Entry(
        Code.SECOND_FACTOR_IN_REGISTERS,
        "the second factor of the product `{product}` would stand in registers, and must be a tile",
        ("write the computed factor first, and the tile second",),
        "the second factor is read from shared memory only",
    ),
    Entry(
        Code.PRODUCT_PAST_END,
        "the product `{product}` contracts two tiles along {axis}, and behind its end {tile} goes on with what else "
        "{tensor} holds",
        ("end {tensor} where {axis} ends", "copy the part in question into a tensor of its own"),
        "a tile ends in zeros only where its tensor ends",
    ),
    Entry(
        Code.CONTRACTED_AXES,
        "the product `{product}` contracts {axes} at once, and a kernel contracts one axis so far",
        ("merge the axes into one dimension",),
    ),
    Entry(
        Code.FOLD_SHAPE,
        "`{name}` is folded to a value over {axes}, and a fold keeps one value for each {rows}",
        ("fold over the axes that leave {rows}",),
    ),
    Entry(
        Code.READ_NEEDS_TILE,
        "{tensor} is read along {axes} at once, and only vectors are read without a tile",
        (
            "declare `tile x[…] = {tensor}[…]` and read that",
            "in place of a clause of a `domain`, select with such a tile: `where(x[…], score, -inf)`",
        ),
    ),
    Entry(
        Code.TILE_ROWS,
        "the tile {tile} is read element by element, and its rows are not along {rows}, which is shared out to the "
        "{workers}",
        (
            "{swap}",
            "store the tensor with {rows} outside its innermost dimension",
            "{another}",
            "kernels of one dimension, and sums over the rows of a tile (column sums), are not compiled yet",
        ),
    ),
    Entry(Code.FUNCTION_UNSUPPORTED, "no kernel is built for `{function}` yet", ("write it with other functions",)),
    Entry(
        Code.STORE_WITHOUT_ROWS,
        "the output {output} does not run along {axis}, which is shared out to the {workers}",
        ("define it over {axis}", "{another}"),
    ),
    Entry(
        Code.STORE_COLUMNS_NOT_INNER,
        "the output {output} is computed with columns along {axis}, which is not its innermost dimension",
        ("{swap}", "store it with {axis} last"),
    ),
    Entry(
        Code.STORE_TYPE,
        "the output {output} holds {dtype}, and kernels store bf16, f16 and f32 only so far",
        ("declare {output} as f32",),
    ),
    Entry(
        Code.BLOCK_OF_WORKERS,
        "the block of {axis} is shared out to {sharers}, 64 rows each",
        ("block {axis} by 64 for each {worker}", "state how many there are: {number}"),
        "64 rows are computed together",
    ),
    Entry(
        Code.BLOCK_OF_ROWS,
        "the block of {axis}, one of the axes that share the rows, does not divide the rows of a consumer evenly",
        (
            "block {axis} by a power of two: it need not divide the extent",
            "name {axis} first: `consumers N over {axis}, …`",
        ),
        "a row's position along each axis is a constant of the thread that holds it",
    ),
    Entry(
        Code.PRODUCT_ROWS,
        "the product `{product}` needs the tile {tile} along {rows}, which share the rows, and it lacks one of them",
        ("let the tile run along each axis of the rows", "share out fewer axes: `consumers N over AXIS`"),
        "64 rows of a first factor are read together",
    ),
    Entry(
        Code.BLOCK_OF_PART,
        "`{axis}` has no block of its own: it is a part of a split axis, or no equation uses it",
        ("block the axis that is split", "{part}"),
    ),
    Entry(
        Code.BLOCK_OF_HELD,
        "the axis {axis} is held whole in its tile ({extent} positions)",
        ("leave its block out", "make it streamed or a grid axis first"),
    ),
    Entry(
        Code.SPLIT_AND_PART,
        "one equation runs over {whole} and another over its part {part} alone: each wants a loop order of its own",
        ("write two kernels", "index both by {whole}"),
    ),
    Entry(
        Code.PART_IN_TILE,
        "the position along {axis} is needed, and a tile holds several positions of {whole}, each with its own",
        ("block {whole} by 1", "state what depends on {axis} by {whole} itself"),
    ),
    Entry(
        Code.GRID_FOLDED,
        "`{name}` folds over {axis}, so the axis cannot be shared out to work items: each would hold a part of the "
        "fold",
        ("stream {axis} or hold it", "take {axis} out of `grid`"),
    ),
    Entry(
        Code.HOLD_NEEDS_EXTENT,
        "the axis {axis} has an extent known at launch only, so no tile can hold it whole",
        ("make its extent a parameter, or stream it",),
    ),
)
