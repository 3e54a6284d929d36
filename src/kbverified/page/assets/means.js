// Which of the leaderboard's means hold at the present tolerances.

/** The leaderboard's estimates for its own tau, and for those that page/sweep.py made in advance once they are added. */
export class Means {
  constructor(board) {
    this.board = board;
    this.others = new Map();
  }

  /** Pairs of a tau and its { entries, common }. */
  add(sweep) {
    for (const [tau, means] of sweep) this.others.set(tau, means);
  }

  /** { entries, common, tau, exact } of a dtype; not exact, they are those of the leaderboard's own tau. */
  at(dtype, taus) {
    const own = this.board.tau[dtype];
    const tau = taus.get(dtype) ?? own;
    if (tau === own) return { ...this.board, tau: own, exact: true };
    const other = this.others.get(tau);
    return other ? { ...other, tau, exact: true } : { ...this.board, tau: own, exact: false };
  }

  /** The entries under these settings, dtype by dtype, the fastest first; those without a mean come last. */
  entries(settings) {
    const level = settings.level === "" ? null : Number(settings.level);
    const wanted = (e) =>
      e.suite === settings.suite &&
      e.level === level &&
      e.arm === settings.arm &&
      e.test === settings.test &&
      (settings.generator === "" || e.generator === settings.generator);
    return this.dtypes(settings).flatMap((dtype) =>
      this.at(dtype, settings.taus)
        .entries.filter((e) => e.dtype === dtype && wanted(e))
        .sort((a, b) => (b.correct_speedup[0] ?? -1) - (a.correct_speedup[0] ?? -1)),
    );
  }

  /** The dtypes that are shown, fp32 before bf16. */
  dtypes(settings) {
    const all = [...new Set(this.board.entries.map((e) => e.dtype))].sort().reverse();
    return all.filter((dtype) => settings.dtype === "" || dtype === settings.dtype);
  }

  /** The comparison on the problems that all generators of a dtype solved, where there is one. */
  common(settings, dtype) {
    if (settings.level !== "" || settings.generator !== "") return null;
    const { suite, arm, test } = settings;
    const same = (c) => c.suite === suite && c.dtype === dtype && c.arm === arm && c.test === test && c.n_problems > 0;
    return this.at(dtype, settings.taus).common.find(same) ?? null;
  }

  /** The tolerance nearest to this one that has means. */
  nearest(dtype, tau) {
    const away = (other) => Math.abs(Math.log(other / tau));
    return [this.board.tau[dtype], ...this.board.sweep].reduce((a, b) => (away(b) < away(a) ? b : a));
  }
}
