// An estimate with its interval as a dot and a line, on a logarithmic scale that its neighbours share.

import { el } from "./dom.js";

const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** Position in percent of a value on a scale that holds all of `estimates` ([value, low, high]) and 1. */
export function scaleOf(estimates) {
  const values = estimates.flatMap(([value, low, high]) => [value, low, high]).filter((v) => known(v) && v > 0);
  const low = Math.min(1, ...values) / 1.08;
  const high = Math.max(1, ...values) * 1.08;
  return (value) => (100 * Math.log(value / low)) / Math.log(high / low);
}

/** The drawing of one estimate; an empty one where it has no value. */
export function forest([value, low, high], scale, colour) {
  const one = el("i", { class: "one" });
  one.style.left = `${scale(1)}%`;
  const node = el("div", { class: "forest", data: { "aria-hidden": "true" } }, one);
  if (known(low) && known(high) && low > 0) {
    const line = el("i", { class: "line" });
    line.style.left = `${scale(low)}%`;
    line.style.width = `${scale(high) - scale(low)}%`;
    line.style.background = colour;
    node.append(line);
  }
  if (known(value) && value > 0) {
    const dot = el("i", { class: "dot" });
    dot.style.left = `${scale(value)}%`;
    dot.style.background = colour;
    node.append(dot);
  }
  return node;
}
