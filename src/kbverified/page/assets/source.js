// A source as numbered, coloured lines.

import { el } from "./dom.js";
import { whole } from "./format.js";
import { tokens } from "./highlight.js";

// Beyond these a text was not written to be read, and a browser would take seconds to lay it out.
const MOST_LINES = 10000;
const MOST_PIECES = 60000;

/** A source from page/details.py: its text, or why there is none. */
export function source(shown, label) {
  if (shown.why_none) return el("p", { class: "muted" }, shown.why_none);
  const pieces = tokens(shown.text);
  const lines = numbered(pieces);
  const plain = lines.length > MOST_LINES || pieces.length > MOST_PIECES;
  const remarks = [
    plain ? "Too many lines or words to number and colour." : null,
    shown.cut ? `${whole(shown.cut)} more characters are not in this page.` : null,
  ].filter(Boolean);
  const options = { class: plain ? "source plain" : "source", tabIndex: 0, data: { "aria-label": label } };
  const row = (line) => el("span", { class: "row-of-source" }, line, "\n");
  return [
    el("pre", options, el("code", null, plain ? shown.text : lines.map(row))),
    remarks.length ? el("p", { class: "muted" }, remarks.join(" ")) : null,
  ];
}

/** Lines of pieces: texts, and elements for what has a colour. */
function numbered(pieces) {
  const lines = [[]];
  for (const [kind, text] of pieces) {
    text.split("\n").forEach((part, i) => {
      if (i) lines.push([]);
      if (part && lines.length <= MOST_LINES) lines.at(-1).push(kind ? el("span", { class: `t-${kind}` }, part) : part);
    });
  }
  return lines;
}

/** A log or message that a worker or compiler wrote; null for none. */
export function log(title, text, open = false) {
  if (!text) return null;
  return el("details", { open }, el("summary", null, title), el("pre", { class: "log", tabIndex: 0 }, text));
}
