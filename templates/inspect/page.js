"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const view = $("#view"), status = $("#status");
  let sites = [];          // site -> keys of the lines that it names
  let naming = new Map();  // key of a line -> sites that name it
  let holders = new Map(); // key -> elements
  let boxes = [];          // listboxes, each with its lines
  let pinned = null, shown = null, lit = [], marking = 0;

  function open(number) {
    view.replaceChildren($("#variant-" + number).content.cloneNode(true));
    sites = JSON.parse($("script.sites", view).textContent);
    naming = new Map();
    sites.forEach((keys, site) => keys.forEach((key) => put(naming, key, site)));
    holders = new Map();
    all("[data-k]", view).forEach((line) => put(holders, line.dataset.k, line));
    boxes = all("[role=listbox]", view).map((box) => ({ box, lines: all("[role=option]", box), here: -1 }));
    for (const each of boxes) each.lines.forEach((line, n) => { line.owner = each; line.n = n; });
    pinned = shown = null;
    lit = [];
    showPanes();
    show(null);
  }

  function put(map, key, value) {
    if (!map.has(key)) map.set(key, []);
    map.get(key).push(value);
  }

  // The keys that belong to the very same place as a key, and those of the same line of the spec.
  function related(key) {
    const same = new Set([key]), near = new Set();
    if (key[0] === "m") {
      for (const line of sites[+key.slice(1)]) {
        same.add(line);
        if (line[0] === "s") naming.get(line).forEach((site) => near.add("m" + site));
      }
    } else {
      for (const site of naming.get(key) ?? []) {
        same.add("m" + site);
        sites[site].filter((line) => line[0] !== key[0]).forEach((line) => same.add(line));
      }
    }
    return [same, near];
  }

  function show(line) {
    if (line === shown && lit.length) return;
    for (const each of lit) each.classList.remove("lit", "near");
    lit = [];
    shown = line;
    const key = line?.dataset.k;
    if (key) {
      const [same, near] = related(key);
      for (const [keys, name] of [[same, "lit"], [near, "near"]])
        for (const each of keys)
          if (name === "lit" || !same.has(each))
            for (const element of holders.get(each) ?? []) {
              element.classList.add(name);
              lit.push(element);
            }
    }
    cancelAnimationFrame(marking);
    marking = requestAnimationFrame(() => boxes.forEach(mark));
    tell(line);
  }

  // Where lit lines are in a long text, beside it.
  function mark(each) {
    const canvas = each.box.nextElementSibling;
    if (!canvas?.matches("canvas")) return;
    const height = canvas.height = canvas.clientHeight, draw = canvas.getContext("2d");
    draw.fillStyle = getComputedStyle(canvas).color;
    for (const line of lit)
      if (line.owner === each) {
        draw.globalAlpha = line.classList.contains("lit") ? 1 : 0.35;
        draw.fillRect(0, Math.floor((height * line.n) / each.lines.length), 8, Math.max(2, height / each.lines.length));
      }
  }

  function name(box) {
    return box.id.replace(/^box-/, "");
  }

  function tell(line) {
    if (!line || !line.owner) return void (status.textContent = "");
    const counts = boxes
      .filter((each) => each.box.closest(".pane"))
      .map((each) => [name(each.box), lit.filter((l) => l.owner === each && l.classList.contains("lit")).length])
      .filter(([, count]) => count);
    const place = line.dataset.n ? " " + line.dataset.n : "";
    const what = line.dataset.k ? counts.map(([text, count]) => `${text} ${count}`).join(", ") : "it stems from no line";
    status.textContent = `${line === pinned ? "Pinned: " : ""}${name(line.owner.box)}${place}: ${what}`;
  }

  function reveal(line, centred) {
    const area = line.owner.box.closest(".time") ?? line.owner.box;
    const a = area.getBoundingClientRect(), b = line.getBoundingClientRect();
    if (b.top < a.top || b.bottom > a.bottom)
      area.scrollTop += centred ? b.top - (a.top + a.bottom) / 2 : b.top < a.top ? b.top - a.top : b.bottom - a.top - area.clientHeight;
    if (area.matches(".time") && (b.left < a.left || b.right > a.right)) area.scrollLeft += b.left - (a.left + a.right) / 2;
  }

  function go(each, n) {
    if (!each.lines.length) return;
    each.lines[each.here]?.classList.remove("here");
    each.here = Math.max(0, Math.min(n, each.lines.length - 1));
    const line = each.lines[each.here];
    line.classList.add("here");
    line.id ||= `${each.box.id}-${each.here}`;
    each.box.setAttribute("aria-activedescendant", line.id);
    reveal(line, false);
    if (!pinned) show(line);
  }

  function pin(line) {
    if (line === pinned || !line.dataset.k) return free();
    pinned?.removeAttribute("aria-selected");
    pinned = line;
    line.setAttribute("aria-selected", "true");
    shown = null;
    show(line);
    for (const each of boxes)
      if (each !== line.owner) {
        const own = lit.filter((l) => l.owner === each && l.classList.contains("lit"));
        if (own.length && !own.some(visible)) reveal(densest(own), true);
      }
  }

  // The first of the lines behind which most others follow closely.
  function densest(lines) {
    let best = 0, end = 0, most = 0;
    lines.sort((a, b) => a.n - b.n).forEach((line, n) => {
      while (end < lines.length && lines[end].n < line.n + 20) ++end;
      if (end - n > most) [best, most] = [n, end - n];
    });
    return lines[best];
  }

  function visible(line) {
    const a = line.owner.box.getBoundingClientRect(), b = line.getBoundingClientRect();
    return b.top >= a.top && b.bottom <= a.bottom;
  }

  function free() {
    pinned?.removeAttribute("aria-selected");
    pinned = null;
    const line = shown;
    shown = null;
    show(line);
  }

  function jump(each, by) {
    const found = lit.filter((l) => l.owner === each && l.classList.contains("lit")).map((l) => l.n).sort((x, y) => x - y);
    const next = by > 0 ? found.find((n) => n > each.here) : found.findLast((n) => n < each.here);
    if (next !== undefined) go(each, next);
  }

  const target = (event) => event.target.closest?.(".l");
  view.addEventListener("pointerover", (event) => {
    const line = target(event);
    if (line && !pinned) show(line);
  });
  view.addEventListener("pointerleave", () => pinned || show(null));
  view.addEventListener("click", (event) => {
    const line = target(event);
    if (!line) return;
    if (line.owner) {
      go(line.owner, line.n);
      pin(line);
    } else if (holders.get(line.dataset.k)) pin(line);
  });
  view.addEventListener("focusin", (event) => {
    const each = boxes.find((b) => b.box === event.target);
    if (each && event.target.matches(":focus-visible"))
      go(each, each.here >= 0 ? each.here : Math.max(0, each.lines.findIndex((l) => l.classList.contains("lit"))));
  });
  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const each = boxes.find((b) => b.box === event.target);
    if (!each) return;
    const page = Math.max(1, Math.floor(each.box.clientHeight / 16) - 1);
    const moves = {
      ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: page, PageUp: -page,
      Home: -each.lines.length, End: each.lines.length,
    };
    if (event.key in moves) go(each, Math.max(each.here, 0) + moves[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && each.here >= 0) pin(each.lines[each.here]);
    else if (event.key === "n" || event.key === "N") jump(each, 1);
    else if (event.key === "p" || event.key === "P") jump(each, -1);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") pinned ? free() : show(null);
  });

  function showPanes() {
    for (const choice of all("#panes input"))
      all(".pane", view).filter((p) => p.dataset.name === choice.value).forEach((p) => (p.hidden = !choice.checked));
  }
  $("#panes").addEventListener("change", showPanes);
  $("#scheme").addEventListener("change", (event) => {
    document.documentElement.dataset.scheme = event.target.value;
    boxes.forEach(mark);
  });
  $("#variant")?.addEventListener("change", (event) => open(event.target.value));
  open($("#variant")?.value ?? 0);
})();
