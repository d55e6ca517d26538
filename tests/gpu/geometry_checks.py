"""What the geometry of boxes says against what TMA does, and tensor maps against the driver's: in the worker."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import torch

from tests.gpu.tensors import DEVICE
from tests.hopper.dumps import UNTOUCHED, dump, every_side, foretold, map_over, numbered, random_case, words_of
from tests.hopper.maps import BROKEN, GOOD, random_map
from tilegen.bench.gpu_worker import finish
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime import driver
from tilegen.targets.hopper.tensor_map import TensorMap


def boxes_land(*, rank: int, swizzle: int, seed: int) -> dict[str, int]:
    """Boxes in front of, inside and behind a tensor along every dimension: shared memory is what the geometry says.
    Returns how many boxes and words were compared, and how many words were filled."""
    rng = Random(seed)
    found = {"boxes": 0, "words": 0, "filled": 0}
    for _ in range(3):
        shape, box = random_case(rng, rank, swizzle)
        coordinates = every_side(rng, shape, box)
        x, m = numbered(shape), map_over(shape, box, swizzle)
        y = torch.full((len(coordinates), words_of(m)), float("nan"), device=DEVICE)
        on_gpu = torch.from_numpy(x).to(DEVICE)[..., : shape[-1]]
        dump(box, swizzle)(X=on_gpu, AT=torch.from_numpy(coordinates).to(DEVICE), Y=y)
        finish(f"a dump of {box} from {shape}")
        got, said = y.cpu().numpy(), foretold(m, coordinates, x)
        wrong = np.argwhere(got != said)
        assert not len(wrong), (
            f"box {box} of {shape}, swizzle {swizzle}, at {coordinates[wrong[0][0]]}: word {wrong[0][1]} of shared "
            f"memory holds {got[tuple(wrong[0])]}, not {said[tuple(wrong[0])]}; {len(wrong)} are wrong"
        )
        found["boxes"] += len(coordinates)
        found["words"] += int((said != UNTOUCHED).sum())
        found["filled"] += int((said == 0).sum())
    return found


def maps_agree(*, count: int, seed: int) -> list[str]:
    """Random tensor maps that pass every rule: the driver takes each, writes our bytes where the fields lie, and they
    are read back as what they were. Returns those that it refuses all the same, of interleaved ones, which no kernel
    has; of others that is an error."""
    rng = Random(seed)
    address = -(-torch.empty(1 << 20, device=DEVICE).data_ptr() // 256) * 256
    refused = []
    for _ in range(count):
        m = random_map(rng, address)
        try:
            theirs, ours = driver.encode(m), m.to_bits()
        except TilegenError:
            assert m.interleave, f"the driver refuses {m}"
            refused.append(str(m))
            continue
        assert theirs[:64] == ours[:64], f"{m}: the driver makes {theirs[:64].hex()}, not {ours[:64].hex()}"
        assert TensorMap.from_bits(theirs) == m
    return refused


def rules_of_the_driver(*, seed: int) -> list[str]:
    """Maps just outside of each rule that the driver takes all the same: tilegen is stricter there. Raises where it
    refuses one just inside. `seed` is ignored."""
    address = -(-torch.empty(1 << 20, device=DEVICE).data_ptr() // 256) * 256
    taken = []
    for code, bad, good in BROKEN:
        if "address" not in bad:
            driver.encode(replace(GOOD, **{**good, "address": address}))
            outside = replace(GOOD, **{**bad, "address": address})
        else:
            outside = replace(GOOD, **bad)
        try:
            driver.encode(outside)
        except TilegenError:
            continue
        taken.append(f"{code}: {outside}")
    return taken
