// The part of the address behind #: which view is open, and all settings. Any view can be linked to, and back goes back.

const FIELDS = ["q", "suite", "level", "dtype", "generator", "arm", "test", "verdict", "numerics", "sort", "order"];
const TAU = "tau.";

/** The settings of a fresh page: the leaderboard's own headline and tolerances. */
export function defaults(board) {
  const plain = {
    q: "",
    suite: board.suites[0] ?? "",
    level: "",
    dtype: "",
    generator: "",
    verdict: "",
    numerics: "",
    sort: "speedup",
    order: "down",
  };
  return { ...plain, ...board.headline, taus: new Map(Object.entries(board.tau)) };
}

/** { view, parts, settings } of a hash such as #/candidate/gen/kb/level1_19/0?tau.fp32=0.01. */
export function read(hash, start) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...parts] = path.split("/").map(decode);
  const given = new URLSearchParams(query);
  const settings = { ...start, taus: new Map(start.taus) };
  for (const field of FIELDS) if (given.has(field)) settings[field] = given.get(field);
  for (const dtype of start.taus.keys()) {
    const tau = Number(given.get(TAU + dtype));
    if (tau > 0 && Number.isFinite(tau)) settings.taus.set(dtype, tau);
  }
  return { view: ["candidate", "problem"].includes(view) ? view : "list", parts, settings };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody's own typing
  }
}

/** The inverse of read; what is as on a fresh page is left out. */
export function write(view, parts, settings, start) {
  const query = new URLSearchParams();
  for (const field of FIELDS) if (settings[field] !== start[field]) query.set(field, settings[field]);
  for (const [dtype, tau] of settings.taus) if (tau !== start.taus.get(dtype)) query.set(TAU + dtype, String(tau));
  const path = view === "list" ? "#/" : `#/${[view, ...parts].map(encodeURIComponent).join("/")}`;
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
