// Making elements. Text goes in as text nodes and nowhere else: no module of ours parses markup at run time.

import { visible } from "./visible.js";

/** An element. `options`: class, id, title, href, data (attribute -> value), on (event -> handler); children may be
 * elements, strings, numbers, lists of them, or null for nothing. */
export function el(tag, options, ...children) {
  const node = document.createElement(tag);
  const { class: names, on, data, ...rest } = options ?? {};
  if (names) node.className = names;
  for (const [name, value] of Object.entries(data ?? {}))
    if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  for (const [name, handler] of Object.entries(on ?? {})) node.addEventListener(name, handler);
  for (const [name, value] of Object.entries(rest)) if (value !== undefined) node[name] = value;
  fill(node, ...children);
  return node;
}

/** Replace what is inside a node by these children. */
export function fill(node, ...children) {
  const flat = children.flat(Infinity).filter((child) => child !== null && child !== undefined);
  node.replaceChildren(
    ...flat.map((child) => (child instanceof Node ? child : document.createTextNode(visible(String(child))))),
  );
  return node;
}

/** An element of the page's own skeleton. */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element #${id}`);
  return node;
}

/** A table from header texts and rows of cells; numbers columns by their positions are set right-aligned. */
export function table(headers, rows, numeric = []) {
  const side = (i) => (numeric.includes(i) ? "number" : undefined);
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      null,
      el(
        "thead",
        null,
        el(
          "tr",
          null,
          headers.map((text, i) => el("th", { class: side(i), data: { scope: "col" } }, text)),
        ),
      ),
      el(
        "tbody",
        null,
        rows.map((cells) =>
          el(
            "tr",
            null,
            cells.map((cell, i) => el("td", { class: side(i) }, cell)),
          ),
        ),
      ),
    ),
  );
}

/** Label and value pairs as a description list; nothing for none. */
export function facts(pairs) {
  if (!pairs.length) return null;
  return el(
    "dl",
    { class: "facts" },
    pairs.map(([label, value]) => [el("dt", null, label), el("dd", null, value)]),
  );
}
