// Numbers as people read them. What was not measured is a dash, never 0.

export const DASH = "–";

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

/** Three significant digits, without an exponent where that is short. */
export function digits(value, count = 3) {
  if (missing(value)) return DASH;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const short = Number(value.toPrecision(count));
  return size >= 1e5 || size < 1e-3 ? short.toExponential().replace("e+", "e") : String(short);
}

/** A ratio as people say it: 0.88×. */
export function factor(value) {
  if (missing(value)) return DASH;
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)}×`;
}

/** A ratio's interval: [0.80, 0.97]; empty where there is none. */
export function interval(low, high) {
  if (missing(low) || missing(high)) return "";
  return `[${factor(low).slice(0, -1)}, ${factor(high).slice(0, -1)}]`;
}

/** A share in percent. */
export function percent(value) {
  return missing(value) ? DASH : `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;
}

export function percentInterval(low, high) {
  return missing(low) || missing(high) ? "" : `[${(100 * low).toFixed(0)}, ${(100 * high).toFixed(0)}]`;
}

/** Milliseconds, or microseconds below a tenth of one. */
export function time(ms) {
  if (missing(ms)) return DASH;
  return ms < 0.1 ? `${digits(1000 * ms)} µs` : `${digits(ms)} ms`;
}

export function bytes(value) {
  if (missing(value)) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let size = value;
  while (Math.abs(size) >= 1024 && at < units.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${digits(size)} ${units[at]}`;
}

export function whole(value) {
  return missing(value) ? DASH : value.toLocaleString("en");
}
