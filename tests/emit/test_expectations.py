"""What the SASS gates expect of a plan, and that they notice where the machine code differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.emit.plans import attention_plan, copy_plan, gemm_plan
from tests.emit.test_kernels import code
from tilegen.ir.plan import For, Map, MmaWait, Operation, Plan, Work
from tilegen.ir.uniform import Int
from tilegen.targets.hopper.emit.expectations import expectations
from tilegen.targets.hopper.gates import check_gates


def with_loops(plan: Plan, change: Callable[[For], For]) -> Plan:
    """The plan with `change` applied to each loop of its consumer."""

    def inside(o: Operation) -> Operation:
        if isinstance(o, Work):
            return replace(o, body=tuple(map(inside, o.body)))
        return change(o) if isinstance(o, For) else o

    producer, consumer = plan.roles
    return replace(plan, roles=(producer, replace(consumer, body=tuple(map(inside, consumer.body)))))


def test_loops_are_counted() -> None:
    gate = expectations(attention_plan())
    straddle, inside = gate.loops
    assert (straddle.name, inside.name) == ("attend: right straddle", "attend: inside")
    for loop in gate.loops:
        assert (loop.products, loop.commits, loop.waits, loop.arrivals) == (13, 1, 1, 1)
        assert (loop.turn_waits, loop.turn_passes) == (1, 1)
        assert loop.order == (("mma", 13), ("wait", 0))
        assert loop.under == ()
    assert gate.registers == (32, 160)
    assert dict(gate.evidence) == {"UTMALDG": 1, "SYNCS.ARRIVE.TRANS64": 1, "HGMMA": 1, "ELECT": 1, "USETMAXREG": 2}


def test_a_group_left_pending_is_in_the_order() -> None:
    (loop,) = expectations(gemm_plan()).loops
    assert loop.order == (("mma", 4), ("wait", 1))
    assert loop.turn_waits == loop.turn_passes == 0


def test_a_plan_without_products_has_no_loop_to_gate() -> None:
    gate = expectations(copy_plan())
    assert gate.loops == ()
    assert dict(gate.evidence)["UTMASTG"] == 1
    assert "HGMMA" not in dict(gate.evidence)


def test_a_loop_of_one_known_step_is_none() -> None:
    plan = with_loops(attention_plan(), lambda o: replace(o, start=Int(0), stop=Int(1)))
    assert [loop.name for loop in expectations(plan).loops] == ["attend: work items"], "its products are in that loop"


def test_exponentials_under_a_product_are_expected_there() -> None:
    """The wait moved behind the softmax: the plan now puts its 40 exponentials under the products."""

    def late(o: For) -> For:
        wait = next(x for x in o.body if isinstance(x, MmaWait))
        rest = [x for x in o.body if x is not wait]
        last = max(n for n, x in enumerate(rest) if isinstance(x, Map) and x.out == "e")
        return replace(o, body=(*rest[: last + 1], wait, *rest[last + 1 :]))

    for loop in expectations(with_loops(attention_plan(), late)).loops:
        (under,) = loop.under
        assert (under.statement, under.product, under.wait) == ("p", "s", 0)
        assert (under.opcode, under.least) == ("MUFU.EX2", 40)


def test_the_gates_notice_another_kernel() -> None:
    """The GEMM's machine code does not pass for attention's, nor with a wait more in the plan."""
    kernel = code("gemm")
    assert check_gates(kernel, expectations(gemm_plan())) == []
    assert {d.code for d in check_gates(kernel, expectations(attention_plan()))} >= {"GATE_COUNT", "GATE_REGISTERS"}
    more = with_loops(gemm_plan(), lambda o: replace(o, body=(*o.body, MmaWait(0, (), o.span))))
    assert "GATE_COUNT" in {d.code for d in check_gates(kernel, expectations(more))}
