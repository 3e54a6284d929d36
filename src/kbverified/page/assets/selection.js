// Which candidates are shown and in which order.

const BITS = { generator: 1, dtype: 2, numerics: 4, level: 8, verdict: 16 };
const OTHER = 32;

/** One byte per candidate with a bit for each filter that it misses: 0 is shown. One pass serves table and counts. */
export function misses(candidates, verdicts, codes, settings) {
  const found = new Uint8Array(candidates.size);
  const mark = (bit, hits) => {
    for (let row = 0; row < found.length; row += 1) if (!hits(row)) found[row] |= bit;
  };
  for (const name of ["generator", "dtype", "numerics"]) {
    if (settings[name] === "") continue;
    const column = candidates.codes.get(name);
    const code = candidates.words.get(name).indexOf(settings[name]);
    mark(BITS[name], (row) => code >= 0 && column[row] === code);
  }
  if (settings.level !== "") mark(BITS.level, (row) => candidates.level[row] === Number(settings.level));
  if (settings.verdict !== "") {
    const pass = verdicts.places.get("pass");
    const code = verdicts.places.get(settings.verdict) ?? -1;
    mark(BITS.verdict, settings.verdict === "fail" ? (row) => codes[row] !== pass : (row) => codes[row] === code);
  }
  if (candidates.suites.length > 1) mark(OTHER, (row) => candidates.problem(row).suite === settings.suite);
  const parts = settings.q.toLowerCase().split(/\s+/).filter(Boolean);
  if (parts.length) mark(OTHER, (row) => parts.every((part) => candidates.hay(row).includes(part)));
  return found;
}

/** How many candidates each choice of a field would show, were its own filter not set; "" counts them all. */
export function counts(field, candidates, verdicts, codes, missed) {
  const others = 255 & ~BITS[field];
  const column = field === "verdict" ? codes : field === "level" ? candidates.level : candidates.codes.get(field);
  const tally = new Map();
  let all = 0;
  for (let row = 0; row < missed.length; row += 1) {
    if (missed[row] & others) continue;
    all += 1;
    tally.set(column[row], (tally.get(column[row]) ?? 0) + 1);
  }
  const word = (code) =>
    field === "verdict" ? verdicts.name(code) : field === "level" ? String(code) : candidates.words.get(field)[code];
  const found = new Map([...tally].filter(([code]) => code >= 0).map(([code, n]) => [word(code), n]));
  found.set("", all);
  if (field === "verdict") found.set("fail", all - (found.get("pass") ?? 0));
  return found;
}

/** Rows that are shown, sorted: what is not measured comes last in either direction. */
export function select(candidates, verdicts, codes, settings, missed) {
  const rank = ranks(candidates, codes, settings);
  const sign = settings.order === "down" ? -1 : 1;
  const pass = verdicts.places.get("pass");
  // Wrong answers may be fast: sorted by a measure, what passes stands before what does not.
  const measured = ["speedup", "time", "memory"].includes(settings.sort);
  const group = new Uint8Array(candidates.size);
  for (let row = 0; row < group.length; row += 1) {
    group[row] = (measured && codes[row] !== pass ? 2 : 0) + (Number.isNaN(rank[row]) ? 1 : 0);
  }
  const rows = [];
  for (let row = 0; row < missed.length; row += 1) if (missed[row] === 0) rows.push(row);
  return rows.sort((a, b) => group[a] - group[b] || sign * (rank[a] - rank[b]) || a - b);
}

/** A number per candidate to sort by, NaN where there is nothing. */
function ranks(candidates, codes, { sort, arm }) {
  if (sort === "verdict") return Float64Array.from(codes);
  if (sort === "speedup" || sort === "time") return candidates.numbers.get(`${sort}_${arm}`);
  if (candidates.numbers.has(sort)) return candidates.numbers.get(sort);
  if (!candidates.codes.has(sort)) return new Float64Array(candidates.size);
  const words = candidates.words.get(sort);
  const order = new Map([...words].sort().map((word, place) => [word, place]));
  return Float64Array.from(candidates.codes.get(sort), (code) => (code < 0 ? NaN : order.get(words[code])));
}
