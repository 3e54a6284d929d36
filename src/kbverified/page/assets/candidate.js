// One candidate: verdicts with their reasons, speedups, tolerances, times, memory, logs, provenance, source.

import { el, facts, table } from "./dom.js";
import { DASH, bytes, digits, factor, interval, time } from "./format.js";
import { forest, scaleOf } from "./forest.js";
import { figure } from "./histogram.js";
import { owner, verdict } from "./rows.js";
import { log, source } from "./source.js";
import { seriesColour } from "./theme.js";

/** What the memory figures are, by their names in the table. */
export const MEMORY_NAMES = new Map(
  Object.entries({
    allocator_peak: "allocator's peak (published)",
    allocator_above: "allocator, above inputs and weights",
    device_peak: "whole device's peak (on a CPU: resident set)",
    device_above: "whole device, during the forward",
  }),
);

/** { nodes, draw } of a candidate's view. `context`: candidates, board, settings, verdictOf(test, row), links. */
export function candidate(row, detail, context) {
  const { candidates, settings, board } = context;
  const { problem, name, suite } = candidates.problem(row);
  const figures = detail.times.filter((t) => t.histogram).map((t) => [t, figure(t.histogram)]);
  const nodes = [
    el(
      "nav",
      { class: "crumbs", data: { "aria-label": "breadcrumb" } },
      el("a", { href: context.list() }, "All candidates"),
      " / ",
      el("a", { href: context.problem(row) }, `${suite} ${problem}`),
      " / ",
      `${candidates.text("generator", row)} #${candidates.number("sample", row)}`,
    ),
    el(
      "h2",
      { tabIndex: -1 },
      owner(candidates, row),
      ` #${candidates.number("sample", row)} `,
      el("span", { class: "muted" }, `on ${problem} ${name === problem ? "" : name}`),
    ),
    neighbours(row, context),
    el(
      "div",
      { class: "cards" },
      ["standard", "hidden", "hardened"].map((test) => verdictCard(test, row, detail, context)),
    ),
    section("Speedup", speedups(row, detail, context)),
    section("Critical tolerances", tolerances(row, detail, context)),
    section(
      "Times",
      detail.times.length
        ? detail.times.map((t) => times(t, figures.find(([one]) => one === t)?.[1]))
        : el("p", { class: "muted" }, "No stage that times it ran."),
    ),
    section("Memory", memory(detail.memory)),
    section("Source", source(detail.source, "source of the candidate")),
    section(
      "Builds",
      detail.builds.length
        ? detail.builds.map(build)
        : el("p", { class: "muted" }, "No extension was built by the compile stage."),
    ),
    section("Stages and logs", stages(detail)),
    section(
      "What was found out besides",
      facts(
        [...detail.static, ...detail.numerics, ...detail.flags, ...detail.remarks].map(([label, value]) => [
          label.replaceAll("_", " "),
          said(value),
        ]),
      ),
    ),
    section("Provenance", facts(detail.provenance)),
  ];
  return { nodes, title: `${candidates.key(row)}`, draw: () => figures.map(([, one]) => one.draw()), board, settings };
}

const said = (value) =>
  value === true ? "yes" : value === false ? "no" : typeof value === "number" ? digits(value, 4) : value;

function section(title, ...children) {
  return el("section", { class: "card" }, el("h3", null, title), children);
}

/** Links to the candidates before and after, in the order in which the table shows them. */
function neighbours(row, { order, link }) {
  const at = order.indexOf(row);
  const step = (by, text, id) =>
    at >= 0 && order[at + by] !== undefined
      ? el("a", { href: link(order[at + by]), id }, text)
      : el("span", { class: "muted" }, text);
  return el("p", { class: "steps" }, step(-1, "← previous ( p )", "previous"), " · ", step(1, "next ( n ) →", "next"));
}

function verdictCard(test, row, detail, { candidates, verdictOf, settings, board }) {
  const name = verdictOf(test, row);
  const tau = settings.taus.get(candidates.text("dtype", row));
  const asMeasured = tau === board.tau[candidates.text("dtype", row)];
  return el(
    "div",
    { class: "card small" },
    el("h3", null, test),
    verdict(name),
    el("p", { class: "reason" }, reason(test, name, row, detail, tau, asMeasured, candidates)),
  );
}

/** Why a verdict is what it is, in a sentence or the end of a traceback. */
function reason(test, name, row, detail, tau, asMeasured, candidates) {
  if (name === "not judged") return detail.tests[test]?.why_null ?? "no verdict";
  if (name === "pass")
    return test === "hardened"
      ? "right under our own laws too, and near to the oracle under all"
      : `every critical tolerance is at most tau ${digits(tau)}`;
  const wanted = detail.trials.filter(
    (t) => !t.hardened && t.applicable && (test !== "standard" || t.law === "d1_original"),
  );
  const beyond = wanted.find((t) => t.tolerance !== null && t.tolerance > tau);
  const needs = candidates.number(`needs_${test}`, row);
  if (!Number.isNaN(needs) && beyond) return `${beyond.law}: needs tau ${digits(beyond.tolerance)}, has ${digits(tau)}`;
  if (test === "hardened" && detail.hardened_detail && asMeasured) return detail.hardened_detail;
  const failed =
    wanted.find((t) => t.failure) ??
    (test === "hardened" ? detail.trials.find((t) => t.hardened && t.failure) : undefined);
  return (
    failed?.detail ??
    detail.hardened_detail ??
    detail.verdict_detail ??
    detail.stages.find((s) => s.verdict === name)?.detail ??
    "no more is recorded"
  );
}

function speedups(row, detail, { candidates, board, settings }) {
  const estimates = board.arms.map(({ arm }) =>
    ["", "_low", "_high"].map((end) => candidates.number(`speedup_${arm}${end}`, row)),
  );
  const scale = scaleOf(estimates);
  const why = new Map(Object.entries(detail.why_speedup));
  const colour = seriesColour(candidates.codes.get("generator")[row]);
  const shown = table(
    ["Arm", "Speedup", "", "What it compares"],
    board.arms.map(({ arm, meaning }, i) => {
      const [value, low, high] = estimates[i];
      const remark = why.get(arm) && el("div", { class: "muted" }, why.get(arm));
      return [
        arm === settings.arm ? el("strong", null, arm) : arm,
        [factor(value), " ", el("span", { class: "range" }, interval(low, high))],
        forest(estimates[i], scale, colour),
        [meaning, remark],
      ];
    }),
  );
  return [shown, detail.arms_note ? el("p", { class: "muted" }, `${detail.arms_note}.`) : null];
}

/** What a trial came to: under the published test by tau, under the hardened one by the oracle's limit. */
function outcomes(t, tau) {
  const chip = (right, what) =>
    el("span", { class: `verdict ${right ? "pass" : "fail"}` }, `${right ? "within" : "beyond"} ${what}`);
  if (!t.applicable) return el("span", { class: "muted" }, "not applicable");
  if (t.failure) return verdict(t.failure);
  const byOracle = () => chip(t.right_by_oracle, "the hardened limit");
  if (!t.hardened) return [chip(t.tolerance <= tau, "tau"), t.right_by_oracle === false ? [" ", byOracle()] : null];
  return t.right_by_oracle === null ? el("span", { class: "muted" }, "no figure") : byOracle();
}

function tolerances(row, detail, { candidates, settings }) {
  const tau = settings.taus.get(candidates.text("dtype", row));
  if (!detail.trials.length) return el("p", { class: "muted" }, "No output was compared.");
  const rows = detail.trials.map((t) => [
    t.law,
    outcomes(t, tau),
    digits(t.tolerance),
    digits(t.scaled_error),
    digits(t.reference_scaled_error),
    digits(t.max_abs_error),
    [t.detail, t.why_wrong].filter(Boolean).join("; "),
  ]);
  return [
    el(
      "p",
      { class: "muted" },
      `tau is ${digits(tau)}. A critical tolerance is the smallest tau at which the outputs agree.`,
    ),
    table(
      ["Distribution or law", "", "Needs tau", "Scaled error", "Reference's own", "Largest difference", "Remark"],
      rows,
      [2, 3, 4, 5],
    ),
  ];
}

function times(shown, drawn) {
  const side = (name, [value, low, high]) =>
    `${name} ${time(value)}${low === null ? "" : ` [${time(low)}, ${time(high)}]`}`;
  const remarks = [
    shown.verdict === "pass" ? null : `verdict ${shown.verdict}: these times are not used`,
    shown.rounds_dropped ? `${shown.rounds_dropped} rounds dropped (throttled)` : null,
    shown.interleaved === false ? "both sides ran one after the other: they did not fit the device together" : null,
    shown.baseline_disturbed ? "the reference ran at another speed beside the candidate than alone" : null,
    shown.outputs_verified === null ? null : `${shown.outputs_verified} outputs verified`,
    shown.bound
      ? `judge's bound: ${shown.bound.replaceAll("_", " ")}${shown.bound_ms === null ? "" : ` at ${time(shown.bound_ms)}`}`
      : null,
    shown.floor_ms === null ? null : `roofline's floor ${time(shown.floor_ms)} (${shown.floor_bound})`,
    shown.sol_score === null ? null : `SOL-like score ${digits(shown.sol_score)}`,
  ].filter(Boolean);
  return el(
    "div",
    { class: "timing" },
    el("h4", null, `${shown.stage} `, el("span", { class: "muted" }, `mode ${shown.mode ?? DASH}`)),
    el(
      "p",
      null,
      `${side(shown.baseline_name ?? "reference", shown.baseline_ms)} · ${side("candidate", shown.candidate_ms)}`,
      el("span", { class: "muted" }, " (medians over rounds)"),
    ),
    drawn ? drawn.node : el("p", { class: "muted" }, "No repetition was recorded."),
    el("p", { class: "muted" }, remarks.join(" · ")),
  );
}

function memory(shown) {
  if (shown.figures.every((f) => f.baseline_bytes === null && f.candidate_bytes === null))
    return el("p", { class: "muted" }, shown.why_null ?? "not measured");
  return table(
    ["Figure", "Reference", "Candidate", "Ratio"],
    shown.figures.map((f) => [
      MEMORY_NAMES.get(f.name) ?? f.name,
      bytes(f.baseline_bytes),
      bytes(f.candidate_bytes),
      factor(f.ratio),
    ]),
    [1, 2, 3],
  );
}

function build(shown) {
  const how = shown.cached ? "from the cache" : shown.seconds === null ? "" : `${digits(shown.seconds)} s`;
  return [
    el("p", null, verdict(shown.ok ? "pass" : "compile_error"), ` ${shown.name} `, el("span", { class: "muted" }, how)),
    log("Build log", shown.log, !shown.ok) ?? el("p", { class: "muted" }, "The log is empty."),
  ];
}

function stages(detail) {
  return detail.stages.map((s) =>
    el(
      "div",
      { class: "stage" },
      el(
        "p",
        null,
        el("strong", null, s.stage),
        " ",
        s.status === "skipped" ? el("span", { class: "muted" }, `skipped: ${s.reason}`) : verdict(s.verdict),
        " ",
        el(
          "span",
          { class: "muted" },
          [
            s.mode && `mode ${s.mode}`,
            s.sandbox && `sandbox ${s.sandbox}`,
            `${digits(s.duration_s)} s`,
            s.started_at,
            `protocol ${s.protocol}`,
          ]
            .filter(Boolean)
            .join(" · "),
        ),
      ),
      log("Message", s.detail),
      log("Output", s.output),
    ),
  );
}
