"""Lines that PTX stems from, and those of machine code put right by them."""

from __future__ import annotations

from dataclasses import replace

from tilegen.inspect.places import with_true_places
from tilegen.inspect.ptx import ptx_lines
from tilegen.targets.hopper.sass import Place, parse_sass

PTX = """
.visible .entry k(
)
{
	.reg .b32 	%r<3>;
	.loc	1 9 0
	mov.u32 	%r0, 0;
	.loc	2 7 3
	.loc	1 4 3, function_name $L__info_string0, inlined_at 2 7 3
	.loc	1 2 5, function_name $L__info_string1, inlined_at 1 4 3
	// begin inline asm
	add.u32 	%r1, %r0, 1;
	// end inline asm
$L__BB0_1:
	.loc	2 8 1
	ret;

}
	.file	1 "k.cu"
	.file	2 "k.tile"
	.section	.debug_str
"""
INNER = (Place("k.cu", 2), Place("k.cu", 4), Place("k.tile", 7))


def test_instructions_stem_from_the_line_in_force_and_from_the_calls_around_it() -> None:
    found = {line.text.split()[0]: (line.number, line.places) for line in ptx_lines(PTX)}
    assert found["mov.u32"] == (7, (Place("k.cu", 9),))
    assert found["add.u32"] == (12, INNER)
    assert found["ret;"] == (16, (Place("k.tile", 8),))
    assert found["$L__BB0_1:"][1] == found["}"][1] == ()
    assert not {"//", ".loc", ".file", ".section"} & found.keys()


def test_a_call_in_the_wrong_file_is_put_right_where_the_ptx_leaves_no_doubt() -> None:
    def told(*places: Place) -> tuple[Place, ...]:
        (i,) = parse_sass(".text.k:\n        /*0000*/                   EXIT ;\n").function("k").instructions
        code = parse_sass(".text.k:\n").function("k")
        return with_true_places(replace(code, instructions=(replace(i, places=places),)), PTX).instructions[0].places

    wrong = (*INNER[:2], Place("k.cu", 7))
    assert told(*wrong) == INNER
    assert told(*INNER) == INNER
    assert told(Place("k.cu", 99)) == (Place("k.cu", 99),)
