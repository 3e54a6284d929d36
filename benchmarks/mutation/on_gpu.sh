#!/bin/bash
# One call of so many seconds on a GPU machine: mutants in waves, and what the next call goes on from.
#
#   bash benchmarks/mutation/on_gpu.sh SECONDS CANDIDATES [EARLIER.tar.xz]
#
# Before: the package importable, problems/kernelbench imported, CANDIDATES holding the files of public_parents.jsonl.
# First, once for all calls: at which sizes each parent is tried (variants.json, problems/), and which of its kernels it
# launches (reached.json). An archive of before there were these is refused: begin without one.
# Into $OUT: a report for each wave (first-N-report.md), the end of the log, work.tar.xz: give it to the next call.
# MUTATION: more options, as "--seed 20261201 --not-in FILE" of a second list.
# Builds are not kept: what has a gate record needs none, nor does who is left out, and the rest is built again.
set -u
seconds=$1 candidates=$2 earlier=${3:-} out=${OUT:-benchmarks/out/mutation-gpu} work=/tmp/kbv-mutation
mkdir -p "$work" "$out"
out=$(realpath "$out")
if [ -n "$earlier" ] && [ ! -e "$work/compile" ]; then tar xJf "$earlier" -C "$work"; fi
# 25 s to stop what runs and to pack.
minutes=$(python3 -c "print(max(0.1, ($seconds - 60) / 60))")
KBV_EVALUATOR=on timeout -s INT -k 5 $((seconds - 25)) python3 -m benchmarks.mutation waves --work "$work" \
    --device cuda --candidates "$candidates" --jobs "$(nproc)" --minutes "$minutes" --out "$out" ${MUTATION:-} > "$work/log" 2>&1
echo "waves: exit $?, $SECONDS s" | tee -a "$work/log"
tail -c 6000 "$work/log" | tee "$out/log.txt"
for made in variants.json reached.json; do
    if [ -e "$work/$made" ]; then cp "$work/$made" "$out/"; fi
done
cd "$work" || exit 1
tar cJf "$out/work.tar.xz" --exclude=./build --exclude=./logs .
