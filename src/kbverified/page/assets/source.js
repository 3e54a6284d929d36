// A source as numbered, coloured lines.

import { el } from "./dom.js";
import { whole } from "./format.js";
import { tokens } from "./highlight.js";

/** A source from page/details.py: its text, or why there is none. */
export function source(shown, label) {
  if (shown.why_none) return el("p", { class: "muted" }, shown.why_none);
  const lines = [[]];
  for (const [kind, text] of tokens(shown.text)) {
    text.split("\n").forEach((part, i) => {
      if (i) lines.push([]);
      if (part) lines.at(-1).push(kind ? el("span", { class: `t-${kind}` }, part) : part);
    });
  }
  const cut = shown.cut
    ? el("p", { class: "muted" }, `${whole(shown.cut)} more characters are not in this page.`)
    : null;
  return [
    el(
      "pre",
      { class: "source", tabIndex: 0, data: { "aria-label": label } },
      el(
        "code",
        null,
        lines.map((line) => el("span", { class: "row-of-source" }, line, "\n")),
      ),
    ),
    cut,
  ];
}

/** A log or message that a worker or compiler wrote; null for none. */
export function log(title, text, open = false) {
  if (!text) return null;
  return el("details", { open }, el("summary", null, title), el("pre", { class: "log", tabIndex: 0 }, text));
}
