// Memory against speed, a dot for each candidate that passes: drawn by uPlot, found by the pointer, opened by a click.

import { el, fill } from "./dom.js";
import { factor } from "./format.js";
import { colour, seriesColour } from "./theme.js";
import { CHARTS, NO_CHARTS, logAxis } from "./ticks.js";

const REACH = 14; // pixels between the pointer and a dot that still counts as pointing at it

export class Scatter {
  /** `describe(row)` gives the lines of the hint, `open(row)` is called by a click. */
  constructor(place, candidates, { describe, open }) {
    this.place = place;
    this.candidates = candidates;
    this.describe = describe;
    this.hint = el("div", { class: "hint", hidden: true });
    this.points = [];
    this.near = -1;
    this.open = open;
    new ResizeObserver(() => this.#resize()).observe(place);
  }

  /** Draw these rows. Returns how many of them have both measures. */
  show(rows, arm) {
    const speed = this.candidates.numbers.get(`speedup_${arm}`);
    const memory = this.candidates.numbers.get("memory");
    this.arm = arm;
    this.points = rows.filter((row) => speed[row] > 0 && memory[row] > 0).sort((a, b) => speed[a] - speed[b]);
    this.draw();
    return this.points.length;
  }

  draw() {
    this.plot?.destroy();
    this.plot = null;
    if (!CHARTS) {
      fill(this.place, [el("p", null, NO_CHARTS)]);
      return;
    }
    if (!this.points.length || !this.place.clientWidth) return;
    const speed = this.candidates.numbers.get(`speedup_${this.arm}`);
    const memory = this.candidates.numbers.get("memory");
    const owner = this.candidates.codes.get("generator");
    const names = this.candidates.words.get("generator");
    const x = this.points.map((row) => speed[row]);
    const y = names.map((_, g) => this.points.map((row) => (owner[row] === g ? memory[row] : null)));
    const colours = { text: colour("muted"), line: colour("line") };
    const range = (u, low, high) => [Math.min(low, 1) / 1.15, Math.max(high, 1) * 1.15];
    this.plot = new uPlot(
      {
        ...this.#size(),
        legend: { show: false },
        cursor: { x: false, y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: false, distr: 3, range }, y: { distr: 3, range } },
        axes: [
          logAxis("speedup, reference time / candidate time", colours, factor),
          { ...logAxis("memory, reference / candidate", colours, factor), size: 56 },
        ],
        series: [
          {},
          ...names.map((name, g) => ({
            label: name,
            paths: () => null,
            points: { show: true, size: 6, width: 0, fill: `${seriesColour(g)}b0`, stroke: seriesColour(g) },
          })),
        ],
        hooks: { drawAxes: [(u) => this.#ones(u)] },
      },
      [x, ...y],
      this.place,
    );
    this.plot.over.addEventListener("mousemove", (event) => this.#point(event));
    this.plot.over.addEventListener("mouseleave", () => this.#leave());
    this.plot.over.addEventListener("click", () => {
      if (this.near >= 0) this.open(this.near);
    });
    this.plot.over.append(this.hint);
    this.#leave();
  }

  #size() {
    return {
      width: this.place.clientWidth,
      height: Math.max(260, Math.min(440, Math.round(this.place.clientWidth * 0.6))),
    };
  }

  #resize() {
    if (this.plot && this.plot.width !== this.place.clientWidth && this.place.clientWidth)
      this.plot.setSize(this.#size());
    else if (!this.plot) this.draw();
  }

  /** Lines where neither side is better. */
  #ones(u) {
    const { left, top, width, height } = u.bbox;
    const [x, y] = [u.valToPos(1, "x", true), u.valToPos(1, "y", true)];
    u.ctx.save();
    u.ctx.strokeStyle = colour("muted");
    u.ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    u.ctx.beginPath();
    u.ctx.moveTo(x, top);
    u.ctx.lineTo(x, top + height);
    u.ctx.moveTo(left, y);
    u.ctx.lineTo(left + width, y);
    u.ctx.stroke();
    u.ctx.restore();
  }

  #point(event) {
    const box = this.plot.over.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let least = REACH * REACH;
    this.near = -1;
    for (const row of this.points) {
      const dx = this.plot.valToPos(this.candidates.number(`speedup_${this.arm}`, row), "x") - x;
      const dy = this.plot.valToPos(this.candidates.number("memory", row), "y") - y;
      if (dx * dx + dy * dy < least) {
        least = dx * dx + dy * dy;
        this.near = row;
      }
    }
    if (this.near < 0) {
      this.#leave();
      return;
    }
    this.plot.over.style.cursor = "pointer";
    fill(
      this.hint,
      this.describe(this.near).map((line) => el("div", null, line)),
    );
    this.hint.hidden = false;
    const room = this.plot.over.clientWidth - this.hint.offsetWidth - 8;
    this.hint.style.left = `${Math.max(0, Math.min(x + 12, room))}px`;
    this.hint.style.top = `${y > 90 ? y - this.hint.offsetHeight - 12 : y + 16}px`;
  }

  #leave() {
    this.near = -1;
    this.hint.hidden = true;
    if (this.plot) this.plot.over.style.cursor = "default";
  }
}
