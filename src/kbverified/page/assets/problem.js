// One problem: what it is, all generators' candidates on it, and its source.

import { el, facts, table } from "./dom.js";
import { bytes, digits, factor, interval, time } from "./format.js";
import { forest, scaleOf } from "./forest.js";
import { owner, verdict } from "./rows.js";
import { source } from "./source.js";
import { seriesColour } from "./theme.js";

/** { nodes, title } of the problem at this position in the list of problems. */
export function problem(at, detail, context) {
  const { candidates, settings } = context;
  const shown = candidates.problems[at];
  const rows = [];
  for (let row = 0; row < candidates.size; row += 1) if (candidates.number("problem", row) === at) rows.push(row);
  const speed = (row) => ["", "_low", "_high"].map((end) => candidates.number(`speedup_${settings.arm}${end}`, row));
  const passes = (row) => context.verdictOf(settings.test, row) === "pass";
  rows.sort((a, b) => passes(b) - passes(a) || (speed(b)[0] || -1) - (speed(a)[0] || -1) || a - b);
  const scale = scaleOf(rows.map(speed));
  const taus = [...settings.taus]
    .filter(([, tau]) => shown.replay !== null && shown.replay <= tau)
    .map(([dtype]) => dtype);
  const body = rows.map((row) => {
    const [value, low, high] = speed(row);
    return [
      el("a", { href: context.link(row) }, owner(candidates, row), ` #${candidates.number("sample", row)}`),
      verdict(context.verdictOf(settings.test, row)),
      [factor(value), " ", el("span", { class: "range" }, interval(low, high))],
      forest([value, low, high], scale, seriesColour(candidates.codes.get("generator")[row])),
      time(candidates.number(`time_${settings.arm}`, row)),
      factor(candidates.number("memory", row)),
      digits(candidates.number("tolerance", row)),
    ];
  });
  const nodes = [
    el(
      "nav",
      { class: "crumbs", data: { "aria-label": "breadcrumb" } },
      el("a", { href: context.list() }, "All candidates"),
      " / ",
      `${shown.suite} ${shown.problem}`,
    ),
    el(
      "h2",
      { tabIndex: -1 },
      `${shown.problem} `,
      el("span", { class: "muted" }, shown.name === shown.problem ? "" : shown.name),
    ),
    shown.why_inactive
      ? el("p", { class: "warning" }, `This problem counts in no metric: ${shown.why_inactive}.`)
      : null,
    taus.length
      ? el(
          "p",
          { class: "warning" },
          `At this tau (${taus.join(", ")}) the output for other inputs passes too: read its verdicts apart.`,
        )
      : null,
    el(
      "section",
      { class: "card" },
      el("h3", null, `All generators, ${settings.arm} arm, ${settings.test} test`),
      rows.length
        ? table(["Candidate", "Verdict", "Speedup", "", "Time", "Memory", "Needs tau"], body, [4, 5, 6])
        : el("p", { class: "muted" }, "No generator has a candidate for it."),
    ),
    el(
      "section",
      { class: "card" },
      el("h3", null, "The problem"),
      detail.detail ? el("pre", { class: "log" }, detail.detail) : null,
      facts(
        detail.facts.map(([label, value]) => [
          label,
          label.endsWith("bytes") ? bytes(value) : typeof value === "number" ? digits(value) : value,
        ]),
      ),
      detail.laws.length
        ? table(
            ["Distribution", "Applies", "Zeros pass at", "Mean passes at", "Other inputs' output passes at"],
            detail.laws.map((l) => [
              l.law,
              l.applicable ? "yes" : `no: ${l.why_not ?? ""}`,
              digits(l.zeros),
              digits(l.mean),
              digits(l.replay),
            ]),
            [2, 3, 4],
          )
        : null,
    ),
    el("section", { class: "card" }, el("h3", null, "Reference"), source(detail.source, "source of the problem")),
  ];
  return { nodes, title: `${shown.suite}/${shown.problem}`, draw: () => [] };
}
