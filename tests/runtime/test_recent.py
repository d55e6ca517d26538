"""Caches of what was used last."""

from __future__ import annotations

from tilegen.runtime.recent import Recent


def test_what_was_used_longest_ago_is_forgotten() -> None:
    recent: Recent[int] = Recent(most=2)
    made: list[int] = []

    def get(key: int) -> int:
        return recent.get(key, lambda: made.append(key) or key)

    for key in (1, 2, 1, 3, 2, 1):
        assert get(key) == key
    assert made == [1, 2, 3, 2, 1]
    assert len(recent) == 2


def test_a_look_does_not_count_as_use() -> None:
    recent: Recent[int] = Recent(most=2)
    for key in (1, 2):
        recent.get(key, lambda key=key: key)
    assert recent.peek(1) == 1
    recent.get(3, lambda: 3)
    assert (recent.peek(1), recent.find(2), recent.find(3)) == (None, 2, 3)
    recent.get(4, lambda: 4)
    assert recent.find(2) is None


def test_what_weighs_much_is_forgotten_sooner() -> None:
    recent: Recent[int] = Recent(lambda value: value, 9, 100)
    made: list[int] = []

    def get(key: int) -> int:
        return recent.get(key, lambda: made.append(key) or key)

    for key in (40, 50, 40, 30, 40, 50, 200, 200):
        assert get(key) == key
    assert made == [40, 50, 30, 50, 200]
