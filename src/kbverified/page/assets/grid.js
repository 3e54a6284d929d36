// The table of candidates: only the rows in sight exist, so that thousands scroll as smoothly as ten.

import { el } from "./dom.js";

const AROUND = 8;

/** A scrolling grid. `columns`: { key, label, hint, class, cell(row, node) }; `open(row)` and `sort(key)` are called. */
export class Grid {
  constructor(place, columns, { open, sort, label }) {
    this.columns = columns;
    this.open = open;
    this.rows = [];
    this.active = 0;
    this.pool = [];
    this.header = el(
      "div",
      { class: "row head", data: { role: "row", "aria-rowindex": 1 } },
      columns.map((column) =>
        el(
          "div",
          {
            class: `cell ${column.class ?? ""}`,
            title: column.hint,
            data: { role: "columnheader", "data-key": column.key },
          },
          el("button", { type: "button", on: { click: () => sort(column.key) } }, column.label),
        ),
      ),
    );
    this.space = el("div", { class: "space", data: { role: "rowgroup" } });
    this.body = el("div", { class: "body" }, this.space);
    this.empty = el("p", { class: "empty", hidden: true }, "No candidate matches. Clear a filter to see more.");
    this.node = el(
      "div",
      { class: "grid", tabIndex: 0, data: { role: "grid", "aria-label": label, "aria-colcount": columns.length } },
      this.header,
      this.body,
      this.empty,
    );
    place.replaceChildren(this.node);
    this.body.addEventListener("scroll", () => this.#later(), { passive: true });
    new ResizeObserver(() => {
      this.pool.forEach((line) => {
        line.shown = -1;
      });
      this.#draw();
    }).observe(this.body);
    this.node.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Show these rows, from the top unless `keep`; `sorted` is { key, order }. */
  show(rows, sorted, keep = false) {
    this.rows = rows;
    this.active = keep ? Math.min(this.active, Math.max(0, rows.length - 1)) : 0;
    if (!keep) this.body.scrollTop = 0;
    this.pool.forEach((line) => {
      line.shown = -1;
    });
    this.node.setAttribute("aria-rowcount", String(rows.length + 1));
    for (const cell of this.header.children) {
      const here = cell.dataset.key === sorted.key;
      cell.setAttribute("aria-sort", here ? (sorted.order === "down" ? "descending" : "ascending") : "none");
    }
    this.empty.hidden = rows.length > 0;
    this.body.hidden = rows.length === 0;
    this.#draw();
  }

  get #height() {
    return parseFloat(getComputedStyle(this.node).getPropertyValue("--row"));
  }

  #later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  #draw() {
    const height = this.#height;
    this.header.style.paddingRight = `${12 + this.body.offsetWidth - this.body.clientWidth}px`; // as the rows' own
    this.space.style.height = `${height * this.rows.length}px`;
    const first = Math.max(0, Math.floor(this.body.scrollTop / height) - AROUND);
    const last = Math.min(
      this.rows.length,
      Math.ceil((this.body.scrollTop + this.body.clientHeight) / height) + AROUND,
    );
    while (this.pool.length < last - first) this.pool.push(this.#line());
    this.pool.forEach((line) => {
      line.node.hidden = true;
    });
    for (let at = first; at < last; at += 1) {
      const line = this.pool[at % this.pool.length];
      line.node.hidden = false;
      if (line.shown !== at) this.#fillLine(line, at, height);
      line.node.setAttribute("aria-selected", String(at === this.active));
    }
    this.node.setAttribute("aria-activedescendant", this.rows.length ? `row-${this.active}` : "");
  }

  #line() {
    const cells = this.columns.map((column) =>
      el("div", { class: `cell ${column.class ?? ""}`, data: { role: "gridcell" } }),
    );
    const node = el("div", { class: "row", data: { role: "row" } }, cells);
    const line = { node, cells, shown: -1 };
    node.addEventListener("click", (event) => {
      this.active = line.shown;
      if (!event.target.closest("a")) this.open(this.rows[line.shown]);
    });
    this.space.append(node);
    return line;
  }

  #fillLine(line, at, height) {
    line.shown = at;
    line.node.id = `row-${at}`;
    line.node.style.transform = `translateY(${at * height}px)`;
    line.node.setAttribute("aria-rowindex", String(at + 2));
    this.columns.forEach((column, i) => column.cell(this.rows[at], line.cells[i]));
  }

  #key(event) {
    if (event.target.closest("button, a")) return;
    const page = Math.max(1, Math.floor(this.body.clientHeight / this.#height) - 1);
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
      j: 1,
      k: -1,
    };
    if (event.key === "Enter" && this.rows.length) this.open(this.rows[this.active]);
    else if (Object.hasOwn(steps, event.key) && !event.ctrlKey && !event.metaKey && !event.altKey)
      this.#move(steps[event.key]);
    else return;
    event.preventDefault();
  }

  #move(by) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, this.active + by));
    const [top, height] = [this.active * this.#height, this.#height];
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    else if (top + height > this.body.scrollTop + this.body.clientHeight)
      this.body.scrollTop = top + height - this.body.clientHeight;
    this.#draw();
  }
}
