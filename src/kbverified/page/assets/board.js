// The headline and the generators: means with their intervals, at the tolerances for which Python made them.

import { el, fill } from "./dom.js";
import { DASH, digits, factor, interval, percent, percentInterval, whole } from "./format.js";
import { forest, scaleOf } from "./forest.js";
import { seriesColour } from "./theme.js";

const overlap = ([, low, high], [, otherLow, otherHigh]) =>
  low !== null && otherLow !== null && low <= otherHigh && otherLow <= high;

function readsAs([value, low, high]) {
  if (low === null || high === null)
    return "No interval can be given, so it is not said whether that is faster than the reference.";
  if (low > 1) return "The whole interval lies above 1×: faster than the reference.";
  if (high < 1) return "The whole interval lies below 1×: slower than the reference.";
  return "The interval contains 1×: whether that is faster or slower than the reference is undecided.";
}

/** The headline: for each dtype (they never share a mean) the highest mean, its interval, and what it holds under.
 * `go(dtype, tau)` moves a slider. */
export function headline(place, means, settings, go) {
  const { board } = means;
  const all = means.entries(settings);
  const dtypes = means.dtypes(settings).filter((dtype) => all.some((e) => e.dtype === dtype));
  const note = "Not for findings: these numbers are from a CPU, or from environments that were mixed.";
  const meaning = board.arms.find(({ arm }) => arm === settings.arm).meaning;
  const where = settings.level === "" ? "all levels" : `level ${settings.level}`;
  const conditions = [
    `${settings.arm} arm: ${meaning}`,
    `${settings.test} test`,
    `${settings.suite}, ${where}`,
    ...board.environments,
  ];
  const heads = dtypes.map((dtype) => {
    const own = all.filter((e) => e.dtype === dtype);
    return el("div", null, head(means, settings, own, dtype, dtypes.length > 1), stale(means, settings, dtype, go));
  });
  fill(
    place,
    board.findings ? null : warning(note),
    heads.length ? el("div", { class: "heads" }, heads) : el("p", null, "No generator has candidates here."),
    el("p", { class: "conditions" }, conditions.join(" · ")),
  );
}

const warning = (...children) => el("p", { class: "warning", data: { role: "note" } }, children);

function head(means, settings, all, dtype, several) {
  const { tau, exact } = means.at(dtype, settings.taus);
  const [best, ...others] = all.filter((e) => e.correct_speedup[0] !== null);
  if (!best) {
    const why = all[0].correct_speedup[4];
    const said = `${dtype ?? "No dtype"}, tau ${tau ?? DASH}: no mean${why ? `, ${why}` : ""}.`;
    return [el("p", { class: "big none" }, DASH), el("p", null, said)];
  }
  const [value, low, high, n, why] = best.correct_speedup;
  const range = interval(low, high);
  const close = others.filter((e) => overlap(best.correct_speedup, e.correct_speedup)).length;
  return [
    el(
      "p",
      { class: exact ? "big" : "big stale" },
      factor(value),
      range ? el("span", { class: "range" }, ` ${range}`) : null,
      el("small", null, range ? ` ${Math.round(100 * means.board.confidence)} % interval over problems` : ` ${why}`),
    ),
    el(
      "p",
      null,
      `The highest Correct Speedup${several ? ` in ${dtype}` : ""}, at tau ${digits(tau)}, is that of `,
      el("strong", null, best.generator),
      `: the mean over the ${n} of ${best.n_problems} problems that it solved and has a time for. `,
      readsAs(best.correct_speedup),
      others.length ? ` ${neighbours(close, others.length)}` : "",
    ),
    together(means.common(settings, dtype)),
  ];
}

/** What is said where tau stands at a value for which no mean was made. */
function stale(means, settings, dtype, go) {
  const { tau, exact } = means.at(dtype, settings.taus);
  if (exact) return null;
  const moved = settings.taus.get(dtype);
  const near = means.nearest(dtype, moved);
  const button = el("button", { type: "button", class: "link", on: { click: () => go(dtype, near) } }, digits(near));
  return warning(
    `tau is ${digits(moved)} now. Verdicts and counts below follow it; the mean above is still that of ${digits(tau)}. `,
    "The nearest tau with means is ",
    button,
    ".",
  );
}

function neighbours(close, others) {
  const all = others === 1 ? "the other generator's" : `those of ${close} of the ${others} other generators`;
  return `Its interval ${others === 1 && !close ? "does not overlap" : "overlaps"} ${all}; each mean is over what its own generator solved.`;
}

/** The comparison on common ground, in a sentence. */
function together(one) {
  if (!one) return null;
  const said = one.correct_speedup
    .filter(([, e]) => e[0] !== null)
    .sort(([, a], [, b]) => b[0] - a[0])
    .slice(0, 3)
    .map(([name, [value, low, high]]) => `${name} ${factor(value)} ${interval(low, high) || "(no interval)"}`)
    .join(", ");
  return said
    ? el(
        "p",
        { class: "muted" },
        `On the ${one.n_problems} problems that all ${one.correct_speedup.length} generators solved: ${said}.`,
      )
    : null;
}

/** The table of generators. `solved(entry)` counts the problems with a passing candidate at the tau of the slider. */
export function generators(place, means, settings, names, solved, choose) {
  const shown = means.entries(settings);
  const exact = (e) => means.at(e.dtype, settings.taus).exact;
  const scale = scaleOf(shown.filter(exact).map((e) => e.correct_speedup));
  const several = means.dtypes({ ...settings, dtype: "" }).length > 1;
  const head = [
    "Generator",
    ...(several ? ["dtype"] : []),
    "Correct Speedup",
    "",
    "Solved",
    "fast_1",
    "Memory",
    "Implausible",
    ...(means.board.audited ? ["Audited: Correct Speedup", "Audited: solved", "Hacks left out"] : []),
  ];
  const estimate = (e, text, range) =>
    e && e[0] !== null
      ? [text(e[0]), " ", el("span", { class: "range", title: e[4] ?? "" }, range(e[1], e[2]) || "no interval")]
      : el("span", { title: e?.[4] ?? "" }, DASH);
  const rows = shown.map((e) => {
    const count = solved(e);
    const own = seriesColour(Math.max(0, names.indexOf(e.generator)));
    const dot = el("i", { class: "owner" });
    dot.style.background = own;
    const share = exact(e) ? estimate(e.correctness, percent, percentInterval) : "";
    const [speed, drawn] = exact(e)
      ? [
          [
            estimate(e.correct_speedup, factor, interval),
            el("small", null, e.correct_speedup[3] ? ` n = ${e.correct_speedup[3]}` : ""),
          ],
          forest(e.correct_speedup, scale, own),
        ]
      : [el("span", { class: "muted" }, `none at tau ${digits(settings.taus.get(e.dtype))}`), ""];
    const others = exact(e)
      ? [estimate(e.fast_1, percent, percentInterval), estimate(e.memory, factor, interval)]
      : [DASH, DASH];
    const audited = !means.board.audited
      ? []
      : exact(e) && e.audited // at other tolerances than the run's nobody knows what is left
        ? [
            estimate(e.audited.correct_speedup, factor, interval),
            estimate(e.audited.correctness, percent, percentInterval),
            e.audited.left_out,
          ]
        : [DASH, DASH, DASH];
    return el(
      "tr",
      { data: { "data-generator": e.generator } },
      el(
        "th",
        { data: { scope: "row" } },
        dot,
        el(
          "button",
          {
            type: "button",
            class: "link",
            title: "show only this generator's candidates",
            on: { click: () => choose(e.generator) },
          },
          e.generator,
        ),
      ),
      several ? el("td", null, e.dtype ?? DASH) : null,
      el("td", null, speed),
      el("td", { class: "plot" }, drawn),
      el("td", { class: "solved" }, `${whole(count)} of ${whole(e.n_problems)} `, el("small", null, share)),
      others.map((cell) => el("td", null, cell)),
      el("td", null, whole(e.n_implausible)),
      audited.map((cell) => el("td", null, cell)),
    );
  });
  fill(
    place,
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "generators" },
        el(
          "thead",
          null,
          el(
            "tr",
            null,
            head.map((text) => el("th", { data: { scope: "col" } }, text)),
          ),
        ),
        el("tbody", null, rows),
      ),
    ),
  );
}
