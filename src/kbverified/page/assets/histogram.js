// The repetitions of one timing record: both sides over each other, in bins of equal ratio (page/histogram.py).

import { el } from "./dom.js";
import { time, whole } from "./format.js";
import { colour } from "./theme.js";
import { CHARTS, NO_CHARTS, logAxis } from "./ticks.js";

/** A figure of one histogram, to be drawn by `draw` once it stands in the page. */
export function figure(shown) {
  const place = el("div", { class: "histogram" });
  const line = (side, word) => {
    const { n, outside, quartiles_ms: q } = shown[side];
    const out = outside ? `, ${whole(outside)} far out` : "";
    return el(
      "span",
      { class: `key ${side}` },
      `${word}, all ${whole(n)} launches: median ${time(q[2])}, quartiles ${time(q[1])} to ${time(q[3])}${out}`,
    );
  };
  const caption = el(
    "figcaption",
    null,
    line("baseline", "reference"),
    line("candidate", "candidate"),
    ` ${whole(shown.rounds)} rounds`,
  );
  return { node: el("figure", null, place, caption), draw: () => draw(place, shown) };
}

function draw(place, shown) {
  if (!CHARTS) {
    place.replaceChildren(el("p", null, NO_CHARTS));
    return null;
  }
  const [low, high] = shown.edges_ms;
  const bins = shown.baseline.counts.length;
  const edges = Array.from({ length: bins + 1 }, (_, i) => low * (high / low) ** (i / bins));
  const heights = (side) => [...shown[side].counts.map((count) => count / shown[side].n), 0];
  const colours = { text: colour("muted"), line: colour("line") };
  const series = (name) => ({
    stroke: colour(name),
    fill: `${colour(name)}55`,
    width: 1.5,
    points: { show: false },
    paths: uPlot.paths.stepped({ align: 1 }),
  });
  const share = {
    stroke: colours.text,
    size: 46,
    font: "12px system-ui, sans-serif",
    grid: { stroke: colours.line, width: 1 },
    ticks: { show: false },
    values: (u, splits) => splits.map((v) => `${Math.round(100 * v)} %`),
  };
  place.replaceChildren();
  return new uPlot(
    {
      width: place.clientWidth,
      height: 190,
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, distr: 3, range: () => [low, high] },
        y: { range: (u, least, most) => [0, most * 1.1] },
      },
      axes: [logAxis("time of a launch", colours, time), share],
      series: [{}, series("baseline"), series("candidate")],
    },
    [edges, heights("baseline"), heights("candidate")],
    place,
  );
}
