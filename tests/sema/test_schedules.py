"""Directives become what `ir.schedule` says, and conditions choose among blocks."""

from __future__ import annotations

import pytest

from tests.sema.faults import loaded, reported, with_changes
from tilegen.ir import schedule as ir

OLD = "schedule hopper { block i 64, j 64 consumers 1 over i }"


ROLES = (("grid", ("i",)), ("stream", ("j",)), ("hold", ("d",)))
WALK = ir.Walk("j", "up", None)


def directives(text: str) -> list[ir.Directive]:
    schedule = loaded(with_changes((OLD, "schedule hopper { " + text + " }"))).schedule("hopper")
    assert schedule is not None
    return list(schedule.directives)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("block i D", [ir.Block("i", 64, None)]),
        ("block i 64, j 80", [ir.Block("i", 64, None), ir.Block("j", 80, None)]),
        ("consumers 3 over i", [ir.Consumers(3, ("i",), None)]),
        ("stages a 3, b 2", [ir.Stages("a", 3, None), ir.Stages("b", 2, None)]),
        ("late C by 1", [ir.Late("C", 1, None)]),
        ("ahead s by 0", [ir.Ahead("s", 0, None)]),
        ("batch C, s", [ir.Batch(("C", "s"), None)]),
        ("issue s, C", [ir.Issue(("s", "C"), None)]),
        ("under C: s", [ir.Under("C", ("s",), None)]),
        ("take_turns over s, C", [ir.TakeTurns(("s", "C"), None)]),
        ("dependent_launch", [ir.Option("dependent_launch", None, None)]),
        ("stale_max", [ir.StaleMax(None)]),
        ("exact_max", [ir.Option("exact_max", None, None)]),
        ("walk j down", [ir.Walk("j", "down", None)]),
        ("persistent table", [ir.Persistent("table", None)]),
        ("order longest_first", [ir.Order(("longest_first",), None)]),
        ("order i, j", [ir.Order(("i", "j"), None)]),
        ("group i by 32 MB", [ir.Group("i", 32 << 20, None, None)]),
        ("group i by 8", [ir.Group("i", None, 8, None)]),
        ("alias C, a", [ir.Alias("C", "a", None)]),
        ("grid i stream j hold d", [ir.Role(*role, None) for role in ROLES]),
        ("split j by 4", [ir.SplitReduction("j", 4, None)]),
        ("via a cp_async, C rows", [ir.Via("a", "cp_async", None), ir.Via("C", "rows", None)]),
        ("hint a keep, C stream", [ir.Hint("a", "keep", None), ir.Hint("C", "stream", None)]),
        ("multicast b over i", [ir.Multicast("b", "i", 2, None)]),
        ("multicast b over i by 4, a over j", [ir.Multicast("b", "i", 4, None), ir.Multicast("a", "j", 2, None)]),
        ("place s registers", [ir.Place("s", "registers", None)]),
        ("registers 240, 24", [ir.Registers(240, 24, None)]),
        ("isolate fast prefetch 2", [ir.Option("isolate", "fast", None), ir.Option("prefetch", 2, None)]),
        ("outputs C { grid i walk j up }", [ir.Outputs(("C",), (ir.Role(*ROLES[0], None), WALK), None)]),
    ],
)  # fmt: skip
def test_each_directive(text: str, wanted: list[ir.Directive]) -> None:
    assert [_placeless(d) for d in directives(text)] == [_placeless(w) for w in wanted]


def _placeless(directive: ir.Directive) -> str:
    fields = {k: v for k, v in vars(directive).items() if k not in ("span", "directives")}
    inner = [_placeless(d) for d in directive.directives] if isinstance(directive, ir.Outputs) else []
    return f"{type(directive).__name__} {fields} {inner}"


def test_the_first_schedule_whose_condition_holds_is_taken() -> None:
    text = with_changes(
        (
            OLD,
            "schedule hopper if D == 128 and flag { block i 1 } schedule hopper if D == 128 { block i 2 }"
            " schedule hopper { block i 3 }",
        )
    )

    def block(**params: str) -> int:
        schedule = loaded(text, params).schedule("hopper")
        assert schedule is not None
        (directive,) = schedule.directives
        assert isinstance(directive, ir.Block)
        return directive.extent

    assert [block(), block(D="128"), block(D="128", flag="true")] == [3, 2, 1]
    assert [s.target for s in loaded(text, {"D": "128"}).schedules] == ["hopper", "mls"]


def test_schedules_that_do_not_hold_are_checked_too() -> None:
    text = with_changes((OLD, "schedule hopper if D == 128 { stages q 3 }"))
    assert [d.code for d in reported(text)] == ["UNKNOWN_NAME"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("stages s 3", "WRONG_KIND"),
        ("late a by 1", "WRONG_KIND"),
        ("block a 3", "WRONG_KIND"),
        ("outputs s { grid i }", "WRONG_KIND"),
        ("via s tma", "WRONG_KIND"),
        ("block i BM", "UNKNOWN_NAME"),
        ("walk jj down", "UNKNOWN_NAME"),
        ("late C by 1 late C by 2", "DIRECTIVE_TWICE"),
        ("walk j down walk j up", "DIRECTIVE_TWICE"),
        ("grid i grid j", "DIRECTIVE_TWICE"),
        ("order longest_first order i", "DIRECTIVE_TWICE"),
        ("stale_max exact_max", "DIRECTIVES_DISAGREE"),
        ("exact_max take_turns over s stale_max", "DIRECTIVES_DISAGREE"),
        ("alias C, a via C rows", "DIRECTIVES_DISAGREE"),
        ("stages C 2 via C rows", "DIRECTIVES_DISAGREE"),
        ("stages C 2 alias C, a", "DIRECTIVES_DISAGREE"),
        ("stream j hold j", "DIRECTIVES_DISAGREE"),
        ("grid i stream j, i", "DIRECTIVES_DISAGREE"),
        ("via a tmaa", "DIRECTIVE_WORD"),
        ("stages a 0", "DIRECTIVE_NUMBER"),
        ("take_turns over s, s", "NAMED_TWICE"),
    ],
)
def test_names_words_and_repeats_are_checked(text: str, code: str) -> None:
    assert [d.code for d in reported(with_changes((OLD, "schedule hopper { " + text + " }")))] == [code]


def test_directives_for_two_outputs_are_apart() -> None:
    text = with_changes(
        (OLD, "schedule hopper { outputs C { block i 64 } outputs E { block i 32 } }"),
        ("output C:", "output E: f32[M, N] else 0 output C:"),
        ("C[i, j] =", "E[i, j] = s[i, j] C[i, j] ="),
    )
    schedule = loaded(text).schedule("hopper")
    assert schedule is not None
    assert len(schedule.directives) == 2
