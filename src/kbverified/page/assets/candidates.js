// The table of all candidates: typed columns, and the verdicts at any tau.

/** Columns as they come from page/candidates.py, ready to be asked row by row. */
export class Candidates {
  constructor(main) {
    this.problems = main.problems;
    this.size = main.size;
    this.suites = [...new Set(main.problems.map((problem) => problem.suite))];
    this.words = new Map();
    this.codes = new Map();
    this.numbers = new Map();
    for (const [name, column] of Object.entries(main.columns)) {
      if (column.words) {
        this.words.set(name, column.words);
        this.codes.set(name, Int32Array.from(column.at));
      } else {
        this.numbers.set(
          name,
          Float64Array.from(column.values, (value) => (value === null ? NaN : value)),
        );
      }
    }
    this.level = Int32Array.from(this.numbers.get("problem"), (at) => this.problems[at].level);
    this.places = new Map();
    for (let row = 0; row < this.size; row += 1) this.places.set(this.key(row), row);
  }

  /** A text of a row, null where there is none. */
  text(name, row) {
    const code = this.codes.get(name)[row];
    return code < 0 ? null : this.words.get(name)[code];
  }

  /** A number of a row, NaN where there is none. */
  number(name, row) {
    return this.numbers.get(name)[row];
  }

  problem(row) {
    return this.problems[this.numbers.get("problem")[row]];
  }

  /** generator/suite/problem/sample: the path that every file of a candidate repeats. */
  key(row) {
    const { suite, problem } = this.problem(row);
    return `${this.text("generator", row)}/${suite}/${problem}/${this.number("sample", row)}`;
  }

  /** What a search looks through: made when first asked for. */
  hay(row) {
    this.hays ??= [];
    const { problem, name, suite } = this.problem(row);
    return (this.hays[row] ??= [this.text("generator", row), suite, problem, name, this.text("kind", row) ?? ""]
      .join(" ")
      .toLowerCase());
  }

  /** The row of a key, undefined for none. */
  find(key) {
    return this.places.get(key);
  }
}

export const NO_VERDICT = "not judged";

/** One test's verdict of every candidate: a step at the tolerance that it needs (page/rule.py). */
export class Verdicts {
  constructor(candidates, tests) {
    this.candidates = candidates;
    const names = new Set(["pass"]);
    for (const test of tests)
      for (const side of ["below", "above"])
        for (const word of candidates.words.get(`${side}_${test}`)) names.add(word);
    this.names = [...[...names].sort((a, b) => (b === "pass") - (a === "pass") || (a < b ? -1 : 1)), NO_VERDICT];
    this.places = new Map(this.names.map((name, i) => [name, i]));
    this.steps = new Map(
      tests.map((test) => [
        test,
        {
          needs: candidates.numbers.get(`needs_${test}`),
          below: this.#coded(`below_${test}`),
          above: this.#coded(`above_${test}`),
        },
      ]),
    );
  }

  #coded(name) {
    const words = this.candidates.words.get(name).map((word) => this.places.get(word));
    const none = this.places.get(NO_VERDICT);
    return Int16Array.from(this.candidates.codes.get(name), (code) => (code < 0 ? none : words[code]));
  }

  /** Positions in `names`, one per candidate; `taus` maps a dtype to its tolerance. */
  at(test, taus) {
    const { needs, below, above } = this.steps.get(test);
    const dtypes = this.candidates.codes.get("dtype");
    const tauOf = this.candidates.words.get("dtype").map((dtype) => taus.get(dtype) ?? NaN);
    const found = new Int16Array(this.candidates.size);
    for (let row = 0; row < found.length; row += 1) {
      const step = needs[row];
      found[row] = Number.isNaN(step) || tauOf[dtypes[row]] >= step ? above[row] : below[row];
    }
    return found;
  }

  name(code) {
    return this.names[code];
  }
}
