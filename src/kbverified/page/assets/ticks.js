// Round numbers along a logarithmic axis.

/** Round values between low and high: 1, 2, 5 of each decade, or powers of ten where there would be too many. */
export function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const steps = decades > 4 ? [1] : decades > 1 ? [1, 2, 5] : decades > 0.4 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : null;
  if (!steps) return evenTicks(low, high);
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const step of steps) {
      const value = Number((step * 10 ** power).toPrecision(6));
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

function evenTicks(low, high) {
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(Number(value.toPrecision(9)));
  return found;
}

/** Whether uPlot was at hand when the page was made (page/vendor.py). */
export const CHARTS = typeof uPlot !== "undefined";
export const NO_CHARTS = "This page was made without uPlot, which draws the charts: python -m kbverified.page.vendor fetches it.";

/** An axis of uPlot's with such ticks. */
export function logAxis(label, colours, values) {
  return {
    label,
    stroke: colours.text,
    labelSize: 22,
    size: 46,
    font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
    grid: { stroke: colours.line, width: 1 },
    ticks: { stroke: colours.line, width: 1, size: 4 },
    splits: (u, axis, low, high) => logTicks(low, high),
    filter: (u, splits) => splits,
    values: (u, splits) => splits.map(values),
  };
}
