"""What is wrong with a plan, or too much for a machine (tilegen.checks, tilegen.ir)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import REPORT, Entry

ENTRIES = (
    Entry(
        Code.PLAN_JSON,
        "this is no plan that tilegen wrote: {reason}",
        ("write the plan again with `tilegen build`",),
    ),
    Entry(
        Code.INVALID_PLAN,
        "the plan made from this breaks its own rules, at `{line}`: {reason}",
        (REPORT, "try another schedule"),
    ),
    Entry(
        Code.SHARED_MEMORY_FULL,
        "the tiles of {kernel} need {over} bytes more shared memory than there is; {largest} takes most",
        ("{shrink}", "use smaller blocks", "{share}"),
        "a CTA has at most 232448 bytes of shared memory on sm_90, and 166912 on sm_80",
    ),
    Entry(
        Code.TOO_MANY_THREADS,
        "{warpgroups} warpgroups of 128 threads for the {role} are too many for one CTA",
        ("use fewer consumers, and a smaller block for their axis",),
        "a CTA has at most 1024 threads",
    ),
    Entry(
        Code.TOO_MANY_BARRIERS,
        "the consumers need more named barriers than there are, to take turns and to meet",
        ("use fewer consumers", "drop `take_turns`"),
        "a CTA has 16 named barriers",
    ),
    Entry(
        Code.REGISTER_FILE_FULL,
        "the registers given to producer and consumers are more than the CTA has: the kernel would never start",
        ("give fewer `registers`", "drop `registers` from the schedule, and let tilegen split them"),
        "setmaxnreg: the sum of threads x registers is at most threads x registers at entry",
    ),
    Entry(
        Code.REGISTERS_FULL,
        "here a thread of the {role} holds more values than its registers take; {largest} takes most",
        (
            "{stream}",
            "{blocks}",
            "{more}",
            "{shorter}",
        ),
        "values that do not fit go to memory, and the products wait for them",
    ),
    Entry(
        Code.GRID_TOO_LARGE,
        "{kernel} would need too many CTAs at these sizes",
        ("use larger blocks", "make the schedule `persistent static`"),
        "a grid has at most 2**31 - 1 CTAs",
    ),
    Entry(
        Code.GRID_CLUSTERS,
        "the CTAs of {kernel} are no whole clusters at these sizes",
        (REPORT, "leave `multicast` out"),
        "a grid is made of whole clusters",
    ),
    Entry(
        Code.PIPELINE_DEADLOCK,
        "the kernel would wait for ever here: {why}",
        (REPORT, "try another schedule"),
        "every wait is met by an arrival that does not itself depend on the wait",
    ),
    Entry(
        Code.PIPELINE_BYTES,
        "{ring}: the bytes loaded into a slot are not those that its barrier expects",
        (REPORT, "try another schedule"),
        "a full barrier's phase ends when exactly the expected bytes have come",
    ),
    Entry(
        Code.PIPELINE_ARRIVALS,
        "{who} arrives at the {barrier} for round {generation} while it counts round {current}",
        (REPORT, "try another schedule"),
        "an arrival counts in whatever phase the barrier is in",
    ),
    Entry(
        Code.PIPELINE_LAPPED,
        "{who} may miss round {generation} of the {barrier}: the next round can end before it looks",
        (REPORT, "try another schedule"),
        "a wait sees a phase's parity only, so no phase may end twice around it",
    ),
    Entry(
        Code.PIPELINE_SKIPPED,
        "{who} may take an older round of the {barrier} for round {generation}: it does not know that the one before "
        "is over",
        (REPORT, "try another schedule"),
        "a wait sees a phase's parity only, so the phase before is known to be over",
    ),
    Entry(
        Code.PIPELINE_UNORDERED,
        "{statement}: nothing orders this access of {who} to shared memory after an earlier one",
        (REPORT, "try another schedule"),
        "two accesses to the same bytes, one of them a write, are ordered by barriers",
    ),
    Entry(
        Code.PIPELINE_STALE,
        "{statement}: {who} reads shared memory that does not hold what it is meant to read",
        (REPORT, "try another schedule"),
        "a slot is read in the round in which it was filled",
    ),
    Entry(
        Code.PIPELINE_ACCUMULATOR,
        "{statement}: {who} reads or adds to an accumulator that no product of the work item has begun",
        (REPORT, "try another schedule"),
        "the first product of a work item overwrites what the registers hold",
    ),
    Entry(
        Code.PIPELINE_FENCE,
        "{statement}: threads wrote these bytes, and no proxy fence follows before {who} hands them to TMA or the "
        "tensor core",
        (REPORT, "try another schedule"),
        "fence.proxy.async stands between generic writes and asynchronous accesses",
    ),
    Entry(
        Code.PIPELINE_TURNS,
        "{who} hands on the turn before the next warpgroup has taken the last one",
        (REPORT, "try another schedule"),
        "a named barrier counts arrivals, not who they are from",
    ),
    Entry(
        Code.PIPELINE_STORES,
        "{who} ends while TMA still reads what it stores from shared memory",
        (REPORT, "try another schedule"),
        "shared memory is gone when the CTA ends",
    ),
    Entry(
        Code.PIPELINE_COPIES,
        "{who} ends with copies to shared memory that it has not waited for",
        (REPORT, "try another schedule"),
        "shared memory is gone when the CTA ends",
    ),
    Entry(
        Code.PIPELINE_UNREAD,
        "{ring} is filled once more often than it is waited for, and the CTA may end under the load",
        (REPORT, "try another schedule"),
        "every load is waited for before the CTA ends",
    ),
    Entry(
        Code.DIVISION_BY_ZERO,
        "{statement}: at some sizes a position is divided by 0",
        (REPORT, "try another schedule"),
    ),
    Entry(
        Code.MOVEMENT_PLACE,
        "{statement}: elements that do not belong together meet here",
        (REPORT, "try another schedule"),
        "each element is read, combined and stored at the position that the spec gives it",
    ),
    Entry(
        Code.MOVEMENT_BOXES,
        "{statement}: the boxes that fill {ring} are not the tile that is declared",
        (REPORT, "try another schedule"),
        "the boxes of one fill cover one tile, and bring the bytes that they are said to",
    ),
    Entry(
        Code.MOVEMENT_OPERAND,
        "{statement}: a product reads shared memory in another way than the tile lies there",
        (REPORT, "try another schedule"),
        "a matrix descriptor steps through the tile's rows and columns",
    ),
    Entry(
        Code.MOVEMENT_FOLD,
        "{statement}: {why}",
        (REPORT, "try another schedule"),
        "a sum takes in each position of the domain once",
    ),
    Entry(
        Code.MOVEMENT_STORE,
        "{statement}: not the elements of {tensor} that the spec defines are written",
        (REPORT, "try another schedule"),
        "each element of an output's domain is written once, and no other",
    ),
    Entry(
        Code.MOVEMENT_BOUNDS,
        "{statement}: elements outside {tensor} are read",
        (REPORT, "try another schedule"),
        "threads read and write inside tensors: nothing clips them",
    ),
    Entry(
        Code.MOVEMENT_MEND,
        "{statement}: what a scan took out of a tile does not come back where it belongs",
        (REPORT, "try `isolate fast`"),
        "an entry that is no finite number reaches the rows that see it, and no others",
    ),
    Entry(
        Code.POISON_FOLD,
        "{statement}: a {kind} takes in what it must not, or misses what it must take in",
        (REPORT, "try another schedule"),
        "a fold reads its identity at every point outside the domain, and the value at each point inside",
    ),
    Entry(
        Code.POISON_PRODUCT,
        "{statement}: a row of this product takes in a position that it must not see, or misses one",
        (REPORT, "try another schedule"),
        "at a position outside the domain one factor is 0 and the other a finite number: 0 * NaN is NaN",
    ),
    Entry(
        Code.POISON_STORE,
        "{statement}: an element of {tensor} is stored that does not hold the spec's value",
        (REPORT, "try another schedule"),
        "only the spec's value is stored",
    ),
    Entry(
        Code.POISON_VOTE,
        "{statement}: a vote depends on rows that are not stored",
        (REPORT, "leave `stale_max` out"),
        "rows that are not stored do not vote",
    ),
)
