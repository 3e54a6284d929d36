// The headline and the generators: means with their intervals, as the leaderboard made them for its own tau.

import { el, fill } from "./dom.js";
import { DASH, factor, interval, percent, percentInterval, whole } from "./format.js";
import { forest, scaleOf } from "./forest.js";
import { seriesColour } from "./theme.js";

const levelOf = (settings) => (settings.level === "" ? null : Number(settings.level));

/** The leaderboard's entries under these settings, dtype by dtype, the fastest first; those without a mean come last. */
export function entries(board, settings) {
  const level = levelOf(settings);
  const found = board.entries.filter(
    (e) =>
      e.suite === settings.suite &&
      e.level === level &&
      e.arm === settings.arm &&
      e.test === settings.test &&
      (settings.dtype === "" || e.dtype === settings.dtype) &&
      (settings.generator === "" || e.generator === settings.generator),
  );
  const name = (e) => e.dtype ?? "";
  return found.sort(
    (a, b) => (name(a) < name(b)) - (name(a) > name(b)) || (b.correct_speedup[0] ?? -1) - (a.correct_speedup[0] ?? -1),
  );
}

/** Whether a dtype's tolerance is another than the one that the means are for. */
export function moved(board, settings, dtype) {
  return settings.taus.get(dtype) !== board.tau[dtype] && settings.taus.has(dtype);
}

const overlap = ([, low, high], [, otherLow, otherHigh]) =>
  low !== null && otherLow !== null && low <= otherHigh && otherLow <= high;

function readsAs([value, low, high]) {
  if (low === null || high === null)
    return "No interval can be given, so it is not said whether that is faster than the reference.";
  if (low > 1) return "The whole interval lies above 1×: faster than the reference.";
  if (high < 1) return "The whole interval lies below 1×: slower than the reference.";
  return "The interval contains 1×: whether that is faster or slower than the reference is undecided.";
}

/** The headline: for each dtype (they never share a mean) the highest mean, its interval, and what it holds under. */
export function headline(place, board, settings) {
  const all = entries(board, settings);
  const dtypes = [...new Set(all.map((e) => e.dtype))].sort().reverse();
  const warning = board.findings
    ? null
    : el(
        "p",
        { class: "warning", data: { role: "note" } },
        "Not for findings: these numbers are from a CPU, or from environments that were mixed.",
      );
  const meaning = board.arms.find(({ arm }) => arm === settings.arm).meaning;
  const where = settings.level === "" ? "all levels" : `level ${settings.level}`;
  const conditions = [
    `${settings.arm} arm: ${meaning}`,
    `${settings.test} test`,
    `${settings.suite}, ${where}`,
    ...board.environments,
  ];
  const heads = dtypes.map((dtype) =>
    head(
      board,
      settings,
      all.filter((e) => e.dtype === dtype),
      dtype,
      dtypes.length > 1,
    ),
  );
  fill(
    place,
    warning,
    heads.length ? el("div", { class: "heads" }, heads) : el("p", null, "No generator has candidates here."),
    el("p", { class: "conditions" }, conditions.join(" · ")),
  );
}

function head(board, settings, all, dtype, several) {
  const tau = `tau ${board.tau[dtype] ?? DASH}`;
  const [best, ...others] = all.filter((e) => e.correct_speedup[0] !== null);
  if (!best) {
    const why = all[0].correct_speedup[4];
    return el(
      "div",
      null,
      el("p", { class: "big none" }, DASH),
      el("p", null, `${dtype ?? "No dtype"}: no mean${why ? `, ${why}` : ""}.`),
    );
  }
  const [value, low, high, n, why] = best.correct_speedup;
  const range = interval(low, high);
  const close = others.filter((e) => overlap(best.correct_speedup, e.correct_speedup)).length;
  const stale = moved(board, settings, dtype);
  return el(
    "div",
    null,
    el(
      "p",
      { class: `big${stale ? " stale" : ""}` },
      factor(value),
      el("span", { class: "range" }, range ? ` ${range}` : " no interval"),
      el("small", null, range ? ` ${Math.round(100 * board.confidence)} % interval over problems` : ` ${why}`),
    ),
    el(
      "p",
      null,
      `The highest Correct Speedup${several ? ` in ${dtype}` : ""}, at ${tau}, is that of `,
      el("strong", null, best.generator),
      `: the mean over the ${n} of ${best.n_problems} problems that it solved and has a time for. `,
      readsAs(best.correct_speedup),
      others.length ? ` ${neighbours(close, others.length)}` : "",
    ),
    together(board, settings, dtype),
    stale
      ? el(
          "p",
          { class: "warning", data: { role: "note" } },
          `You moved tau. Verdicts and counts below follow it; this mean is still that of ${tau}. For another, set tau in config.yaml and run again: no stage reruns.`,
        )
      : null,
  );
}

function neighbours(close, others) {
  const all = others === 1 ? "the other generator's" : `those of ${close} of the ${others} other generators`;
  return `Its interval ${others === 1 && !close ? "does not overlap" : "overlaps"} ${all}; each mean is over what its own generator solved.`;
}

/** The comparison on common ground, where there is one. */
function together(board, settings, dtype) {
  const one = board.common.find(
    (c) => c.suite === settings.suite && c.dtype === dtype && c.arm === settings.arm && c.test === settings.test,
  );
  if (settings.level !== "" || settings.generator !== "" || !one || !one.n_problems) return null;
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
export function generators(place, board, settings, names, solved, choose) {
  const shown = entries(board, settings);
  const still = (e) => !moved(board, settings, e.dtype);
  const scale = scaleOf(shown.filter(still).map((e) => e.correct_speedup));
  const several = new Set(board.entries.map((e) => e.dtype)).size > 1;
  const head = [
    "Generator",
    ...(several ? ["dtype"] : []),
    "Correct Speedup",
    "",
    "Solved",
    "fast_1",
    "Memory",
    "Implausible",
  ];
  const estimate = (e, text, range) =>
    e && e[0] !== null
      ? [text(e[0]), " ", el("span", { class: "range" }, range(e[1], e[2]))]
      : el("span", { title: e?.[4] ?? "" }, DASH);
  const rows = shown.map((e) => {
    const count = solved(e);
    const own = seriesColour(Math.max(0, names.indexOf(e.generator)));
    const dot = el("i", { class: "owner" });
    dot.style.background = own;
    const share = still(e) ? estimate(e.correctness, percent, percentInterval) : "";
    const [speed, drawn] = still(e)
      ? [
          [
            estimate(e.correct_speedup, factor, interval),
            el("small", null, e.correct_speedup[3] ? ` n = ${e.correct_speedup[3]}` : ""),
          ],
          forest(e.correct_speedup, scale, own),
        ]
      : [el("span", { class: "muted" }, `only for tau ${board.tau[e.dtype]}`), ""];
    const others = still(e)
      ? [estimate(e.fast_1, percent, percentInterval), estimate(e.memory, factor, interval)]
      : [DASH, DASH];
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
