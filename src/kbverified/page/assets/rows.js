// How a candidate is said in a row: the columns of the grid, and the same parts elsewhere.

import { el, fill } from "./dom.js";
import { DASH, digits, factor, interval, time } from "./format.js";
import { seriesColour } from "./theme.js";

/** A verdict with its colour; the word alone says it too. */
export function verdict(name) {
  const kind = name === "pass" ? "pass" : name === "not judged" || name === null ? "none" : "fail";
  return el("span", { class: `verdict ${kind}` }, name ?? "not judged");
}

/** A generator's name behind its colour. */
export function owner(candidates, row) {
  const dot = el("i", { class: "owner" });
  dot.style.background = seriesColour(candidates.codes.get("generator")[row]);
  return [dot, candidates.text("generator", row)];
}

/** The columns of the grid. `view()` gives the present { arm, verdictOf(row), link(row), problemLink(row) }; `memory` says
 * what the memory column compares. */
export function columns(candidates, memory, view) {
  const several = candidates.words.get("dtype").length > 1;
  const marks = (row) =>
    candidates.text("implausible", row)
      ? el(
          "abbr",
          { title: `implausible time in ${candidates.text("implausible", row)}: below what moving the data takes` },
          " ⚠",
        )
      : candidates.text("below_floor", row)
        ? el("abbr", { title: `below the roofline's floor in ${candidates.text("below_floor", row)}` }, " ▾")
        : null;
  const speed = (row, end = "") => candidates.number(`speedup_${view().arm}${end}`, row);
  return [
    {
      key: "problem",
      label: "Problem",
      class: "c-problem",
      cell: (row, node) => {
        const { problem, name, why_inactive: left } = candidates.problem(row);
        fill(
          node,
          el("a", { href: view().problemLink(row), tabIndex: -1 }, problem),
          " ",
          el("span", { class: "muted" }, name === problem ? "" : name),
          left ? el("abbr", { title: `counts in no metric: ${left}` }, " ∅") : null,
        );
      },
    },
    {
      key: "generator",
      label: "Generator",
      class: "c-generator",
      cell: (row, node) => fill(node, el("a", { href: view().link(row), tabIndex: -1 }, owner(candidates, row))),
    },
    {
      key: "sample",
      label: "Sample",
      class: "c-sample number",
      cell: (row, node) => fill(node, `#${candidates.number("sample", row)}`),
    },
    {
      key: "verdict",
      label: "Verdict",
      class: "c-verdict",
      hint: "of the chosen test, at the chosen tau",
      cell: (row, node) => fill(node, verdict(view().verdictOf(row))),
    },
    {
      key: "speedup",
      label: "Speedup",
      class: "c-speedup number",
      hint: "of the chosen arm, with its 95 % interval; what passes is sorted before what does not",
      cell: (row, node) => {
        node.classList.toggle("unverified", view().verdictOf(row) !== "pass");
        fill(
          node,
          factor(speed(row)),
          marks(row),
          " ",
          el("span", { class: "range" }, interval(speed(row, "_low"), speed(row, "_high"))),
        );
      },
    },
    {
      key: "time",
      label: "Time",
      class: "c-time number",
      hint: "the candidate's time in the chosen arm",
      cell: (row, node) => fill(node, time(candidates.number(`time_${view().arm}`, row))),
    },
    {
      key: "memory",
      label: "Memory",
      class: "c-memory number",
      hint: `reference / candidate of the ${memory}: above 1 is less memory`,
      cell: (row, node) => fill(node, factor(candidates.number("memory", row))),
    },
    {
      key: "tolerance",
      label: "Needs tau",
      class: "c-tolerance number",
      hint: "critical tolerance: the worst over the distributions",
      cell: (row, node) => fill(node, digits(candidates.number("tolerance", row))),
    },
    {
      key: "numerics",
      label: "Arithmetic",
      class: "c-numerics",
      hint: "the arithmetic that the candidate effectively used",
      cell: (row, node) => fill(node, candidates.text("numerics", row) ?? DASH),
    },
    ...(several
      ? [
          {
            key: "dtype",
            label: "dtype",
            class: "c-dtype",
            cell: (row, node) => fill(node, candidates.text("dtype", row) ?? DASH),
          },
        ]
      : []),
  ];
}
