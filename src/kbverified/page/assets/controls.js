// The bar of filters: search, choices with how many candidates each would show, and a slider for each dtype's tau.

import { el, fill } from "./dom.js";
import { digits, whole } from "./format.js";
import { counts } from "./selection.js";

const STEPS = 20; // of the slider, per factor of ten
const [LOWEST, HIGHEST] = [-7, 0];

/** The controls; `change(field, value)` is called for a setting, `tau(dtype, value)` for a tolerance, `reset()`. */
export class Controls {
  constructor(place, board, candidates, verdicts, { change, tau, reset }) {
    this.candidates = candidates;
    this.verdicts = verdicts;
    this.board = board;
    this.selects = new Map();
    this.sliders = new Map();
    this.search = el("input", {
      type: "search",
      id: "q",
      placeholder: "Search generator, problem, kind…  ( / )",
      autocomplete: "off",
      spellcheck: false,
      data: { "aria-label": "search" },
      on: { input: (event) => change("q", event.target.value) },
    });
    const words = (name) => candidates.words.get(name);
    const levels = [...new Set(candidates.problems.map((p) => p.level))].sort((a, b) => a - b);
    const same = (values) => values.map((value) => [String(value), String(value)]);
    const select = (field, label, choices, title) => this.#select(field, label, choices, title, change);
    const parts = [
      el("div", { class: "field wide" }, this.search),
      board.suites.length > 1 ? select("suite", "Suite", same(board.suites)) : null,
      select("level", "Level", [["", "all levels"], ...levels.map((level) => [String(level), `level ${level}`])]),
      select("generator", "Generator", [["", "all generators"], ...same(words("generator"))]),
      words("dtype").length > 1 ? select("dtype", "dtype", [["", "all dtypes"], ...same(words("dtype"))]) : null,
      select(
        "arm",
        "Arm",
        board.arms.map(({ arm, meaning }) => [arm, `${arm}: ${meaning}`]),
      ),
      select("test", "Test", [
        ["standard", "standard: original inputs"],
        ["hidden", "hidden: all distributions"],
        ["hardened", "hardened: our own laws too"],
      ]),
      select("verdict", "Verdict", [["", "all verdicts"], ["fail", "everything but pass"], ...same(verdicts.names)]),
      words("numerics").length
        ? select("numerics", "Arithmetic", [["", "all arithmetic"], ...same(words("numerics"))])
        : null,
      ...[...Object.keys(board.tau)]
        .filter((dtype) => words("dtype").includes(dtype))
        .map((dtype) => this.#slider(dtype, tau)),
      el(
        "datalist",
        { id: "tau-stops" }, // where means are
        board.sweep.map((tau) => el("option", { value: String(Math.round(Math.log10(tau) * STEPS)) })),
      ),
      el("button", { type: "button", class: "plain", id: "reset", on: { click: reset } }, "Reset"),
    ];
    fill(
      place,
      el(
        "details",
        { id: "filters", open: innerWidth > 700 },
        el("summary", null, "Filters and tau"),
        el("div", null, parts),
      ),
    );
  }

  #select(field, label, choices, title, change) {
    const node = el(
      "select",
      { id: `f-${field}`, title, on: { change: (event) => change(field, event.target.value) } },
      choices.map(([value, text]) => el("option", { value }, text)),
    );
    this.selects.set(field, { node, choices });
    return el("label", { class: "field" }, el("span", null, label), node);
  }

  #slider(dtype, tau) {
    const range = el("input", {
      type: "range",
      id: `tau-${dtype}`,
      min: LOWEST * STEPS,
      max: HIGHEST * STEPS,
      step: 1,
      data: { "aria-label": `tolerance tau for ${dtype}`, list: "tau-stops" },
    });
    const exact = el("input", {
      type: "text",
      class: "exact",
      inputMode: "decimal",
      id: `tau-exact-${dtype}`,
      data: { "aria-label": `tau for ${dtype}, exactly` },
    });
    // Three digits, so that what is shown is what is compared with.
    range.addEventListener("input", () => tau(dtype, Number((10 ** (range.valueAsNumber / STEPS)).toPrecision(3))));
    exact.addEventListener("change", () => {
      const value = Number(exact.value);
      if (value > 0 && Number.isFinite(value)) tau(dtype, value);
      else exact.value = String(this.taus.get(dtype));
    });
    this.sliders.set(dtype, { range, exact });
    return el("div", { class: "field tau" }, el("span", null, `tau ${dtype}`), range, exact);
  }

  /** Bring the controls to these settings, and count what each choice would show. */
  show(settings, codes, missed) {
    this.taus = settings.taus;
    if (document.activeElement !== this.search) this.search.value = settings.q;
    for (const [field, { node }] of this.selects) node.value = settings[field];
    for (const [dtype, { range, exact }] of this.sliders) {
      const tau = settings.taus.get(dtype);
      range.value = String(Math.round(Math.log10(tau) * STEPS));
      range.setAttribute("aria-valuetext", digits(tau));
      if (document.activeElement !== exact) exact.value = String(tau);
    }
    for (const field of ["level", "generator", "dtype", "verdict", "numerics"])
      if (this.selects.has(field)) this.#count(field, codes, missed);
  }

  #count(field, codes, missed) {
    const found = counts(field, this.candidates, this.verdicts, codes, missed);
    const { node, choices } = this.selects.get(field);
    choices.forEach(([value, text], i) => {
      node.options[i].textContent = `${text} (${whole(found.get(value) ?? 0)})`;
    });
  }
}
