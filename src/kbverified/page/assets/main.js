// What the page does: reads its data, follows the address, and redraws what a setting changes.

import { defaults, read, write } from "./address.js";
import { generators, headline } from "./board.js";
import { MEMORY_NAMES, candidate } from "./candidate.js";
import { Candidates, Verdicts } from "./candidates.js";
import { Controls } from "./controls.js";
import { block, unpack } from "./decode.js";
import { byId, el, fill } from "./dom.js";
import { digits, factor, interval, whole } from "./format.js";
import { Grid } from "./grid.js";
import { Means } from "./means.js";
import { problem } from "./problem.js";
import { columns } from "./rows.js";
import { Scatter } from "./scatter.js";
import { misses, select } from "./selection.js";
import { theme } from "./theme.js";

const TESTS = ["standard", "hidden", "hardened"];
const REVERSED = new Set(["speedup", "memory"]); // where more is better, the first click sorts downwards

class Page {
  constructor(main) {
    this.board = main.board;
    this.means = new Means(main.board);
    this.candidates = new Candidates(main);
    this.verdicts = new Verdicts(this.candidates, TESTS);
    this.start = defaults(this.board);
    this.names = this.candidates.words.get("generator");
    this.controls = new Controls(byId("controls"), this.board, this.candidates, this.verdicts, {
      change: (field, value) => this.change({ [field]: value }),
      tau: (dtype, value) => this.#tau(dtype, value),
      reset: () => this.change({ ...this.start, taus: new Map(this.start.taus) }),
    });
    this.memory = MEMORY_NAMES.get(main.memory);
    const open = (row) => {
      location.hash = this.link(row);
    };
    this.grid = new Grid(
      byId("candidates"),
      columns(this.candidates, this.memory, () => this.view),
      { open, label: "candidates", sort: (key) => this.#sort(key) },
    );
    this.scatter = new Scatter(byId("scatter"), this.candidates, {
      open,
      describe: (row) => this.#describe(row),
    });
    fill(
      byId("conditions"),
      this.board.lines.map((line) => el("p", null, line)),
      this.#excluded(),
    );
    byId("skip").addEventListener("click", () => this.grid.node.focus());
    addEventListener("hashchange", () => this.follow());
    addEventListener("keydown", (event) => this.#key(event));
    theme(byId("theme"), () => {
      this.charts?.();
      this.scatter.draw();
      if (this.open === "list") this.#list(true);
    });
  }

  /** Show what the address says. */
  async follow() {
    const { view, parts, settings } = read(location.hash, this.start);
    this.#take(settings);
    this.open = view;
    byId("list").hidden = view !== "list";
    byId("detail").hidden = view === "list";
    this.charts = null;
    if (view === "list") {
      document.title = "Kernel leaderboard";
      this.#list(true);
      scrollTo(0, this.scrolled ?? 0);
    } else await this.#detail(view, parts);
  }

  /** Change settings and stay where we are. */
  change(changes) {
    const kept = Object.keys(changes).length === 1 && "taus" in changes;
    this.#take({ ...this.settings, ...changes });
    history.replaceState(null, "", write("list", [], this.settings, this.start));
    this.#list(kept);
  }

  /** The verdict's name of a candidate under one test, at the present tau. */
  verdictOf(test, row) {
    return this.verdicts.name(this.codes.get(test)[row]);
  }

  link(row) {
    return write("candidate", this.candidates.key(row).split("/"), this.settings, this.start);
  }

  problemLink(row) {
    const { suite, problem: name } = this.candidates.problem(row);
    return write("problem", [suite, name], this.settings, this.start);
  }

  #take(settings) {
    const sound = { ...settings };
    if (!this.board.arms.some(({ arm }) => arm === sound.arm)) sound.arm = this.start.arm;
    if (!TESTS.includes(sound.test)) sound.test = this.start.test;
    this.settings = sound;
    this.codes = new Map(TESTS.map((test) => [test, this.verdicts.at(test, sound.taus)]));
    this.view = {
      arm: sound.arm,
      verdictOf: (row) => this.verdictOf(sound.test, row),
      link: (row) => this.link(row),
      problemLink: (row) => this.problemLink(row),
    };
  }

  #list(keep) {
    const { settings } = this;
    const codes = this.codes.get(settings.test);
    const { missed, rows } = this.#selected();
    const pass = this.verdicts.places.get("pass");
    const passing = rows.filter((row) => codes[row] === pass);
    this.#meansOfOtherTaus();
    headline(byId("headline"), this.means, settings, (dtype, tau) => this.#tau(dtype, tau));
    this.controls.show(settings, codes, missed);
    const solved = this.#solved(codes, pass);
    generators(
      byId("generators"),
      this.means,
      settings,
      this.names,
      (entry) => solved.get(entry.generator)?.size ?? 0,
      (name) => this.change({ generator: settings.generator === name ? "" : name }),
    );
    this.grid.show(rows, { key: settings.sort, order: settings.order }, keep);
    fill(
      byId("status"),
      `${whole(rows.length)} of ${whole(this.candidates.size)} candidates, ${whole(passing.length)} pass the ${settings.test} test`,
    );
    clearTimeout(this.later); // of all parts of the view the plot alone may lag behind a slider
    this.later = setTimeout(() => this.#plot(passing), this.later === undefined ? 0 : 80);
  }

  #tau(dtype, value) {
    this.change({ taus: new Map(this.settings.taus).set(dtype, value) });
  }

  /** Read the means of other tolerances as soon as one is asked for, once. */
  #meansOfOtherTaus() {
    if (this.asked || [...this.settings.taus].every(([dtype, tau]) => tau === this.start.taus.get(dtype))) return;
    this.asked = unpack("sweep-data").then((sweep) => {
      this.means.add(sweep);
      if (this.open === "list") this.#list(true);
    });
  }

  /** What the filters leave, in its order, and which filters each candidate misses. */
  #selected() {
    const codes = this.codes.get(this.settings.test);
    const missed = misses(this.candidates, this.verdicts, codes, this.settings);
    return { missed, rows: select(this.candidates, this.verdicts, codes, this.settings, missed) };
  }

  #plot(passing) {
    const drawn = this.scatter.show(passing, this.settings.arm);
    const said = [
      `${whole(drawn)} of ${whole(passing.length)} candidates that pass have both measures.`,
      `Right is faster, up needs less memory (${this.memory}).`,
      "Colours are those of the generators above.",
      "Each dot opens its candidate; the table above has the same candidates for the keyboard.",
    ];
    fill(byId("scatter-status"), drawn ? said.join(" ") : "No candidate that passes has both measures.");
  }

  /** generator -> active problems of the chosen suite and level with a candidate that passes. */
  #solved(codes, pass) {
    const { candidates, settings } = this;
    const found = new Map();
    for (let row = 0; row < candidates.size; row += 1) {
      const { suite, level, why_inactive: left } = candidates.problem(row);
      if (
        codes[row] !== pass ||
        left ||
        suite !== settings.suite ||
        (settings.level !== "" && level !== Number(settings.level))
      )
        continue;
      const name = candidates.text("generator", row);
      if (!found.has(name)) found.set(name, new Set());
      found.get(name).add(candidates.number("problem", row));
    }
    return found;
  }

  async #detail(view, parts) {
    const place = byId("detail");
    const row = view === "candidate" ? this.candidates.find(parts.join("/")) : undefined;
    const at =
      view === "candidate"
        ? row !== undefined && this.candidates.number("problem", row)
        : this.candidates.problems.findIndex((p) => `${p.suite}/${p.problem}` === parts.join("/"));
    const list = () => write("list", [], this.settings, this.start);
    if (at === false || at < 0) {
      fill(
        place,
        el(
          "p",
          null,
          `There is no ${view} ${parts.join("/")} in this page. `,
          el("a", { href: list() }, "All candidates"),
        ),
      );
      return;
    }
    const wanted = location.hash;
    const details = await block(at);
    if (location.hash !== wanted) return; // somebody went on meanwhile
    const context = {
      candidates: this.candidates,
      board: this.board,
      settings: this.settings,
      list,
      order: this.#selected().rows,
      link: (other) => this.link(other),
      verdictOf: (test, other) => this.verdictOf(test, other),
      problem: (other) => this.problemLink(other),
    };
    const shown =
      view === "candidate"
        ? candidate(row, details.candidates[details.rows.indexOf(row)], context)
        : problem(at, details.problem, context);
    fill(place, shown.nodes);
    document.title = `${shown.title} · Kernel leaderboard`;
    scrollTo(0, 0);
    place.querySelector("h2").focus({ preventScroll: true });
    this.charts = shown.draw;
    shown.draw();
  }

  #sort(key) {
    const { sort, order } = this.settings;
    const first = REVERSED.has(key) ? "down" : "up";
    this.change({ sort: key, order: sort === key ? (order === "up" ? "down" : "up") : first });
  }

  #describe(row) {
    const { arm } = this.settings;
    const speed = (end) => this.candidates.number(`speedup_${arm}${end}`, row);
    return [
      `${this.candidates.text("generator", row)} #${this.candidates.number("sample", row)}`,
      `${this.candidates.problem(row).problem} ${this.candidates.problem(row).name}`,
      `speedup ${factor(speed(""))} ${interval(speed("_low"), speed("_high"))}`,
      `memory ${factor(this.candidates.number("memory", row))}, needs tau ${digits(this.candidates.number("tolerance", row))}`,
    ];
  }

  #excluded() {
    if (!this.board.excluded.length) return null;
    return [
      el("h3", null, "Problems that count in no metric"),
      el(
        "ul",
        null,
        this.board.excluded.map(([key, why]) => el("li", null, el("a", { href: `#/problem/${key}` }, key), `: ${why}`)),
      ),
    ];
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && event.target.matches("input, select")) {
      event.target.blur();
      return;
    }
    if (event.target.matches("input, select, textarea")) return;
    if (event.key === "/" && this.open === "list") {
      byId("q").focus();
      event.preventDefault();
    } else if (event.key === "Escape" && this.open !== "list")
      location.hash = write("list", [], this.settings, this.start);
    else if ((event.key === "n" || event.key === "p") && this.open === "candidate")
      document.getElementById(event.key === "n" ? "next" : "previous")?.click();
  }
}

async function begin() {
  const page = new Page(await unpack("main-data"));
  addEventListener(
    "scroll",
    () => {
      if (page.open === "list") page.scrolled = scrollY;
    },
    { passive: true },
  );
  byId("loading").remove();
  await page.follow();
  document.documentElement.dataset.ready = "yes";
  // For tests, and for whoever asks the page's data in the console: nothing of it can be changed through this.
  globalThis.leaderboard = Object.freeze({
    keys: () => Array.from({ length: page.candidates.size }, (_, row) => page.candidates.key(row)),
    verdicts: (test, taus) =>
      [...page.verdicts.at(test, new Map(Object.entries(taus)))].map((code) => page.verdicts.name(code)),
    shown: () => page.grid.rows.map((row) => page.candidates.key(row)),
  });
}

begin().catch((error) => {
  byId("loading").textContent = `This page could not be opened: ${error.message}. It needs a browser of 2023 or later.`;
  throw error;
});
