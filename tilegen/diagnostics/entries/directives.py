"""What a schedule asks for in vain (tilegen.passes)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(Code.CONSUMER_COUNT, "this number of consumer warpgroups is not possible", ("use 1 to 4",)),
    Entry(
        Code.REGISTER_COUNT,
        "threads cannot have these numbers of registers: consumers get more than at entry, the producer fewer",
        ("leave `registers` out: the numbers that were measured to be good are the default",),
        "setmaxnreg takes multiples of 8 from 24 to 256 (PTX)",
    ),
    Entry(
        Code.CONSUMER_AXIS,
        "the axis {axis} is not in the grid, so its block cannot be shared out to consumers",
        ("name the axis of an output's rows",),
    ),
    Entry(
        Code.NO_PRODUCT, "the equation `{name}` holds no product to place", ("name an equation with a product in it",)
    ),
    Entry(
        Code.DISTANCE_TOO_FAR,
        "`{name}` cannot be that far from the other operations: its operands of one earlier iteration are kept, no "
        "more",
        ("use a distance of 1",),
    ),
    Entry(
        Code.STEP_ORDER,
        "`{reader}` would be computed from `{source}` in an iteration where that is not there yet or no more",
        (
            "make the product that reads it late: `late {reader} by 1`",
            "leave out the directives that move one of the two: `late`, `ahead`, `batch`, `issue`",
        ),
        "a step follows what it reads in the same iteration, or works on the iteration before and precedes it",
    ),
    Entry(
        Code.TILE_AT_TWO_DISTANCES,
        "`{first}` and `{second}` both read the tile {tile}, and one of them works on an earlier iteration",
        ("make both late, or neither", "declare a second tile of the same tensor for one of them"),
        "a slot of a ring is freed when all its readers are done with one iteration",
    ),
    Entry(
        Code.NOT_UNDER,
        "`{name}` cannot be computed under the product of `{product}`: that is awaited before `{name}` begins",
        (
            "make the product late, and issue first what `{name}` needs: `late {product} by 1  issue OTHER, {product}`",
            "leave `under` out",
        ),
        "products are awaited in the order in which they are issued",
    ),
    Entry(
        Code.TURNS_ALONE,
        "there is one consumer, so there are no turns to take",
        ("leave `take_turns` out, or use more",),
    ),
    Entry(
        Code.SKIP_ALONE,
        "there is one consumer, so no block is for the rows of others alone",
        ("leave `skip_rows` out, or use more",),
    ),
    Entry(
        Code.NOTHING_STALE,
        "no scaled sum here can keep an old exponent",
        ("leave `stale_max` out: it needs a softmax whose weights are summed or multiplied, and nothing else",),
    ),
    Entry(Code.WALK_NOT_STREAMED, "the axis {axis} is not streamed, so no loop walks it", ("name the streamed axis",)),
    Entry(Code.ORDER_AXES, "the order of work items must name each axis of the grid once", ("name all of them",)),
    Entry(Code.GROUP_AXIS, "the axis {axis} is not in the grid, so its items cannot be grouped", ("name a grid axis",)),
    Entry(
        Code.ALIAS_NAMES,
        "only an output's staging buffer can use the bytes of a tile: {buffer} and {host} are not such a pair",
        ("write `alias OUTPUT, TILE`",),
    ),
    Entry(
        Code.ALIAS_ROOM,
        "the bytes of {host} cannot hold the store of {buffer}",
        (
            "the tile must be loaded once an item into one stage, in a part for each consumer, and be as large as the "
            "output's rows",
        ),
    ),
    Entry(
        Code.PLACE_OF_TILE,
        "products read the tile {tile} from shared memory, where it is moved to",
        ("leave this out: what an equation computes can be placed, such as softmax weights",),
    ),
    Entry(
        Code.PLACE_NOTHING,
        "no product has a first factor that {name} computes",
        ("name the equation whose values, cast to 16 bits, a product reads beside a tile",),
    ),
    Entry(
        Code.HINT_OF_ROWS,
        "{output} is stored in rows from registers, which takes no hint",
        ("store it by TMA: `via {output} tma`", "leave the hint out"),
    ),
    Entry(
        Code.VECTOR_STORE,
        "{output} has one number a row, which threads store by themselves: TMA would store a tile of them",
        ("leave out what sends it through shared memory: `via {output} tma`, `stages {output}`, `alias {output}`",),
    ),
    Entry(
        Code.HINT_OF_COPIES,
        "{tile} is copied by threads, which give no hints",
        ("bring it by TMA: leave out `via {tile} cp_async` or `via {tile} auto`", "leave the hint out"),
    ),
    Entry(
        Code.OOB_TYPE,
        "{tile} cannot be filled with NaN: no `fma.rn.oob` makes zeros of it again",
        ("leave `oob` out: zeros fill the tile, and selects keep them from where they matter",),
        "fma.rn.oob is there for f16 and bf16 alone",
    ),
    Entry(
        Code.OOB_PRODUCT,
        "{tile} cannot be filled with NaN: the product of {product} would meet it, for whole rows",
        ("leave `oob` out: zeros are what a product wants outside a tensor",),
        "products of the tensor cores (wgmma) have no form that makes zeros of such a NaN",
    ),
    Entry(
        Code.OOB_COPIES,
        "{tile} is copied by threads, which fill with zeros",
        ("bring it by TMA: leave out `via {tile} cp_async` or `via {tile} auto`", "leave `oob` out"),
    ),
    Entry(
        Code.OOB_READ,
        "`{directive}` asks that {tile} is read as a factor in `{type}(a * b + c)` alone, and here it is not",
        (
            "write the rounding: `{type}({tile}[…] * w[…])`, a product, a sum, or one of each, of numbers that are "
            "{type} themselves",
            "make others {type} by a rounding of their own: `{type}(scale)`",
            "leave `oob` out",
        ),
        "fma.rn.oob multiplies and adds once, rounds to the type of its operands, and knows the NaN in its factors",
    ),
    Entry(
        Code.OOB_OF_VECTOR,
        "{tile} is read element by element, without the TMA engine, and nothing fills it",
        ("leave `oob` out",),
    ),
    Entry(
        Code.VIA_OF_VECTOR,
        "{tile} is read element by element, without shared memory, and has no mover",
        ("leave the directive out", "choose movers for tiles that a product reads"),
    ),
    Entry(
        Code.HINT_OF_VECTOR,
        "{tile} is read element by element, without the TMA engine, and takes no hint",
        ("leave the hint out", "give hints to tiles that a product reads"),
    ),
    Entry(
        Code.MULTICAST_AXIS,
        "{axis} is not in the grid, so no CTAs stand next to each other along it",
        ("name a grid axis that the tile does not depend on",),
    ),
    Entry(
        Code.MULTICAST_DEPENDS,
        "{tile} is another one at each position of {axis}, so CTAs along it have nothing to share",
        ("name a grid axis that the tile does not depend on",),
    ),
    Entry(
        Code.MULTICAST_OF_COPIES,
        "{tile} is copied by threads, each CTA's for itself",
        ("bring it by TMA: leave out `via {tile} cp_async` or `via {tile} auto`", "leave `multicast` out"),
    ),
    Entry(
        Code.MULTICAST_OF_VECTOR,
        "{tile} is read element by element, without shared memory, so nothing is loaded for others",
        ("leave `multicast` out", "name a tile that a product reads"),
    ),
    Entry(
        Code.MULTICAST_DEALT,
        "with {why} a CTA's items are dealt to it alone, so no cluster goes through the same ones to share {tile}",
        ("write `persistent static`, or no `persistent`, for tensors without ragged sizes", "leave `multicast` out"),
    ),
    Entry(
        Code.MULTICAST_APART,
        "CTAs along {axis} cannot load {tile} together: {what} depends on where along {axis} a CTA is",
        ("name an axis of the rows, or one that the domain does not bound the loop by", "leave `multicast` out"),
    ),
    Entry(
        Code.MULTICAST_SHARE,
        "the {count} CTAs of a cluster cannot share out {tile}, of which each loads a part",
        ("choose another block", "share it among fewer CTAs: `by 2`"),
    ),
    Entry(
        Code.CLUSTER_SIZE,
        "a cluster of so many CTAs cannot be had",
        ("share tiles among fewer CTAs: `by 2`", "leave one `multicast` out"),
    ),
    Entry(
        Code.CLUSTER_COUNTS,
        "a cluster has one number of CTAs along {axis}",
        ("write the same number for each tile shared along {axis}",),
    ),
    Entry(
        Code.DIRECTIVE_UNSUPPORTED,
        "the directive `{directive}` is understood, but not carried out for {target} yet",
        ("leave it out: it changes speed, never results",),
    ),
)
