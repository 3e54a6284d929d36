// Which candidates are shown and in which order.

const EVERY = "";

/** A function row -> whether it is shown, from the settings; `except` leaves one filter out, to count its choices. */
export function filter(candidates, verdicts, codes, settings, except = null) {
  const wanted = [];
  const text = (name) => {
    if (name === except || settings[name] === EVERY) return;
    const column = candidates.codes.get(name);
    const code = candidates.words.get(name).indexOf(settings[name]);
    wanted.push((row) => column[row] === code && code >= 0);
  };
  ["generator", "dtype", "numerics"].forEach(text);
  if (settings.suite) wanted.push((row) => candidates.problem(row).suite === settings.suite);
  if (except !== "level" && settings.level !== EVERY)
    wanted.push((row) => candidates.level[row] === Number(settings.level));
  if (except !== "verdict" && settings.verdict !== EVERY) {
    const pass = verdicts.places.get("pass");
    const code = verdicts.places.get(settings.verdict) ?? -1;
    wanted.push(settings.verdict === "fail" ? (row) => codes[row] !== pass : (row) => codes[row] === code);
  }
  const parts = settings.q.toLowerCase().split(/\s+/).filter(Boolean);
  if (parts.length) {
    wanted.push((row) => {
      const hay = candidates.hay(row);
      return parts.every((part) => hay.includes(part));
    });
  }
  return (row) => wanted.every((test) => test(row));
}

/** Rows that are shown, sorted: what is not measured comes last in either direction. */
export function select(candidates, verdicts, codes, settings) {
  const shown = filter(candidates, verdicts, codes, settings);
  const rows = [];
  for (let row = 0; row < candidates.size; row += 1) if (shown(row)) rows.push(row);
  const rank = ranks(candidates, verdicts, codes, settings);
  const sign = settings.order === "down" ? -1 : 1;
  // Wrong answers may be fast: sorted by a measure, what passes stands before what does not.
  const pass = verdicts.places.get("pass");
  const measured = ["speedup", "time", "memory"].includes(settings.sort);
  return rows.sort((a, b) => {
    const [x, y] = [rank(a), rank(b)];
    const [emptyX, emptyY] = [x === null || Number.isNaN(x), y === null || Number.isNaN(y)];
    if (measured && (codes[a] === pass) !== (codes[b] === pass)) return codes[a] === pass ? -1 : 1;
    if (emptyX || emptyY) return emptyX - emptyY || a - b;
    return x === y ? a - b : sign * (x < y ? -1 : 1);
  });
}

function ranks(candidates, verdicts, codes, { sort, arm }) {
  if (sort === "problem") return (row) => candidates.number("problem", row);
  if (sort === "verdict") return (row) => codes[row];
  if (sort === "speedup" || sort === "time") return (row) => candidates.number(`${sort}_${arm}`, row);
  if (candidates.codes.has(sort)) return (row) => candidates.text(sort, row);
  return candidates.numbers.has(sort) ? (row) => candidates.number(sort, row) : (row) => row;
}
