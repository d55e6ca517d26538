"""The page to read generated code: what stands in it, and how it answers pointer and keyboard in a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import fails, tilegen
from tests.inspect.browser import browser as browser
from tests.runtime.test_variants import OPEN

TEXTS = ("spec", "plan", "CUDA", "PTX", "SASS")
TRAP = '# </template></script><script>document.title = "escaped"</script> & <b>bold</b>'
EXPECTS = re.compile(r"SYNCS\.ARRIVE\.TRANS64 RZ")
STATEMENT = "  Y[i, j] = 2 * x[i, j]"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a kernel of two variants, in whose text stands what would break out of it."""
    folder = tmp_path_factory.mktemp("page")
    spec = folder / "twofold.tile"
    spec.write_text(OPEN.replace(STATEMENT, f"  {TRAP}\n" + STATEMENT.replace("* x", "*  # twice\n\n    x")))
    result = tilegen("inspect", spec, "--html", folder / "twofold.html")
    assert result.exit_code == 0, result.output
    assert f"wrote {folder / 'twofold.html'}" in result.stdout
    assert "machine code:" not in result.stdout
    return folder / "twofold.html"


# ---- as text -----------------------------------------------------------------------------------------


class Read(HTMLParser):
    """The elements of a page, and the text of those of interest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sites: list[list[list[str]]] = []
        self._in_sites = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_sites = tag == "script" and dict(attrs).get("class") == "sites"

    def handle_data(self, data: str) -> None:
        if self._in_sites and data.strip():
            self.sites.append(json.loads(data))
            self._in_sites = False


def test_the_page_is_whole_in_itself_and_nothing_breaks_out_of_it(page: Path) -> None:
    read = Read(page.read_text())
    assert [tag for tag, _ in read.tags].count("script") == 3  # its own, and the sites of two variants
    assert [tag for tag, _ in read.tags].count("template") == 2
    assert not any(tag == "b" for tag, _ in read.tags)
    links = [value for _, attrs in read.tags for name, value in attrs.items() if name in ("src", "href")]
    assert links == ["data:,"]
    assert "url(" not in page.read_text()
    policy = next(attrs["content"] for tag, attrs in read.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'")


def test_every_line_names_what_is_there(page: Path) -> None:
    text = page.read_text()
    for variant, sites in zip(text.split("<template")[1:], Read(text).sites, strict=True):
        keys = set(re.findall(r'data-k="(\w+)"', variant))
        assert {k for k in keys if k[0] == "m"} == {f"m{n}" for n in range(len(sites))}
        named = {k for site in sites for k in site}
        assert {k for k in keys if k[0] == "c"} == {k for k in named if k[0] == "c"}
        assert {k for k in named if k[0] == "s"} <= keys
        for name in TEXTS:
            assert f'id="box-{name}" role="listbox" tabindex="0"' in variant


def test_a_page_of_what_is_no_spec_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text("")
    assert "--html is of a .tile" in fails(2, "inspect", tmp_path / "k.ptx", "--html", tmp_path / "k.html")
    assert not (tmp_path / "k.html").exists()


# ---- in a browser ------------------------------------------------------------------------------------

LIT = """() => [...document.querySelectorAll('.lines .lit')].map(
  (l) => l.closest('.lines').id.slice(4) + ' ' + l.dataset.n)"""
# points at a line as a mouse does, without moving one, and gives the lines that light up
POINT = """(line) => {
  line.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
  return [...document.querySelectorAll('.lines .lit')];
}"""
# of one line of each key of a text: those that another lights up and that do not light up the other
ONE_WAY = f"""() => {{
  const point = {POINT}, one = [];
  const lines = [...document.querySelectorAll('.lines [data-k]')];
  const firsts = new Map(lines.map((l) => [l.closest('.lines').id + l.dataset.k, l]));
  const lit = new Map([...firsts.values()].map((l) => [l, new Set(point(l))]));
  for (const [line, found] of lit)
    for (const [other, back] of lit)
      if (found.has(other) !== back.has(line)) one.push([line.textContent, other.textContent]);
  return one;
}}"""
ACTIVE = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent"
# the least contrast of the text of lines that are lit, near and neither, by WCAG's formula
CONTRAST = """() => {
  const part = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => { const [r, g, b] = parse(text).map(part); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { const c = getComputedStyle(e).backgroundColor, p = parse(c);
    return p.length > 3 && p[3] === 0 ? (e.parentElement ? ground(e.parentElement) : 'rgb(255,255,255)') : c; };
  const of = (e, pseudo) => { const [a, b] = [light(getComputedStyle(e, pseudo).color), light(ground(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
  const found = {};
  for (const name of ['.lines .lit', '.lines .near', '.lines .l:not(.lit):not(.near)', 'h2', '.quiet', '.help'])
    for (const e of document.querySelectorAll(name))
      found[name] = Math.min(found[name] ?? 99, of(e), of(e, '::before'));
  return found;
}"""


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    """The page in a window of its own. What it asks for, and what goes wrong in it, is collected."""
    window = browser.new_page(viewport={"width": 1500, "height": 900}, color_scheme="light")
    window.asked, window.faults = [], []
    window.on("request", lambda request: window.asked.append(request.url))
    window.on("pageerror", lambda error: window.faults.append(str(error)))
    window.on("console", lambda message: window.faults.append(message.text))
    window.goto(page.as_uri())
    yield window
    assert window.asked == [page.as_uri()]
    assert window.faults == []
    window.close()


def line(window: Any, name: str, text: str | re.Pattern[str]) -> Any:
    return window.locator(f"#box-{name} .l", has_text=text).first


def test_lines_light_each_other_up_both_ways(opened: Any) -> None:
    line(opened, "spec", "Y[i, j] = 2").hover()
    lit = {name: [x for x in opened.evaluate(LIT) if x.startswith(f"{name} ")] for name in TEXTS}
    assert all(lit.values())
    assert lit["spec"] == ["spec 10", "spec 11"]  # the statement goes on behind an empty line
    assert "CUDA" in opened.inner_text("#status")
    assert len(lit["SASS"]) < opened.locator("#box-SASS .l").count()
    line(opened, "SASS", "EXIT").hover()
    assert not any(x.startswith("spec ") for x in opened.evaluate(LIT) if x in lit["spec"])
    for name in ("plan", "CUDA", "PTX", "SASS"):
        opened.locator(f"#box-{name} [data-n='{lit[name][0].split()[1]}']").hover()
        assert lit["spec"][0] in opened.evaluate(LIT), name
    assert opened.evaluate(ONE_WAY) == []


def test_the_machine_code_of_a_helper_lights_up_its_very_line(opened: Any) -> None:
    line(opened, "SASS", EXPECTS).hover()
    lit = opened.locator("#box-CUDA .lit").all_inner_texts()
    assert any("mbarrier.arrive.expect_tx" in text for text in lit)
    assert opened.locator("#box-spec .lit").all_inner_texts() == ["  tile x[i, j] = X[i, j]"]


def test_the_text_of_the_spec_is_shown_as_it_is(opened: Any) -> None:
    assert TRAP in opened.inner_text("#box-spec")
    assert opened.title().startswith("twofold")


def test_a_click_pins_a_line_and_brings_the_others_to_it(opened: Any) -> None:
    store = line(opened, "SASS", "STG")
    store.click()
    before = opened.evaluate(LIT)
    line(opened, "spec", "kernel twofold").hover()
    assert opened.evaluate(LIT) == before
    assert store.get_attribute("aria-selected") == "true"
    for name in TEXTS:  # one lit line of each is in sight
        box = opened.locator(f"#box-{name}").bounding_box()
        lit = [each.bounding_box() for each in opened.locator(f"#box-{name} .lit").all()]
        assert any(box["y"] <= b["y"] and b["y"] + b["height"] <= box["y"] + box["height"] for b in lit), name
    store.click()
    assert store.get_attribute("aria-selected") is None


def test_the_keyboard_does_what_the_pointer_does(opened: Any) -> None:
    def active() -> str:
        return opened.evaluate(ACTIVE)

    keys = opened.keyboard
    for _ in range(12):
        keys.press("Tab")
        if opened.evaluate("document.activeElement.id") == "box-spec":
            break
    assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    keys.press("Home")
    for _ in range(30):
        if "tile x" in active():
            break
        keys.press("ArrowDown")
    lit = opened.evaluate(LIT)
    assert {x.split()[0] for x in lit} == set(TEXTS)
    keys.press("Enter")
    assert opened.locator("[aria-selected=true]").inner_text() == active()
    keys.press("ArrowUp")
    assert opened.evaluate(LIT) == lit
    keys.press("Tab")
    assert opened.evaluate("document.activeElement.id") == "box-plan"
    keys.press("Home")
    keys.press("n")
    first = active()
    assert first in opened.locator("#box-plan .lit").all_inner_texts()
    keys.press("n")
    assert active() != first
    keys.press("p")
    assert active() == first
    keys.press("Escape")
    assert opened.locator("[aria-selected=true]").count() == 0
    keys.press("Home")
    assert opened.evaluate(LIT) == []  # the plan's heading stems from no line
    opened.locator("#box-time").focus()
    keys.press("ArrowRight")
    assert opened.locator("#box-time rect.here").count() == 1


def test_both_schemes_can_be_read(opened: Any) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        line(opened, "SASS", EXPECTS).click()  # lit lines, and near ones
        opened.emulate_media(color_scheme=scheme)
        found = opened.evaluate(CONTRAST)
        assert len(found) == 6
        assert min(found.values()) >= 4.5, (scheme, found)
        grounds.append(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
        opened.keyboard.press("Escape")
    assert grounds[0] != grounds[1]
    opened.select_option("#scheme", "light")  # the switch is stronger than the system
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == grounds[0]


def test_each_variant_has_its_texts(opened: Any) -> None:
    seen = []
    for number in ("0", "1"):
        opened.select_option("#variant", number)
        seen.append([opened.inner_text(f"#box-{name}") for name in TEXTS])
        assert opened.locator("#box-time rect.l").count() > 0
        assert opened.locator("#box-memory .l").count() > 2
        assert opened.locator("tr", has_text=re.compile("^UTMALDG")).count() == 1
        assert opened.locator("tr", has_text=re.compile(r"^x.*f32.*TMA")).count() == 1
    assert seen[0][0] == seen[1][0]
    assert all(a != b for a, b in zip(seen[0][1:], seen[1][1:], strict=True))
    opened.locator("#panes input[value=PTX]").uncheck()
    assert not opened.locator("#box-PTX").is_visible()
    opened.select_option("#variant", "0")
    assert not opened.locator("#box-PTX").is_visible()
