# Sourced on a GPU machine that is lent for minutes: what a call there consists of. Each function writes under $OUT, which
# is what comes back, and says how long it took. The calls of a sitting, for instance:
#
#   . benchmarks/lent_machine.sh; setup; cores; tests --ignore=tests/gpu/test_attacks.py
#   . benchmarks/lent_machine.sh; setup; references one two; profile level1_1 level2_12
#   . benchmarks/lent_machine.sh; setup; mutants 560
#   . benchmarks/lent_machine.sh; setup; aa 9
#
# The machine gets this checkout and, ignored by git: .whl/ (wheels of what is missing there) or .site/site.tar.xz (the
# same, unpacked for its Python), .kernelbench/KernelBench, .candidates/ (benchmarks.candidates --into), .carry/ (what an
# earlier call left: mutants.tar.xz, records-aa.tar.xz). REV: the revision, where the checkout comes without git.

T0=$(date +%s)
OUT=${OUT:-benchmarks/out/lent-machine}
since() { echo $(($(date +%s) - T0)); }
said() { echo "== $* ($(since) s)"; }

setup() {
    if [ -f .site/site.tar.xz ]; then
        [ -d /tmp/site ] || { mkdir -p /tmp/site && tar xJf .site/site.tar.xz -C /tmp/site; }
    elif [ -d .whl ]; then
        [ -d /tmp/site ] || python3 -m pip install -q --no-index --no-deps --no-compile --target /tmp/site .whl/*.whl || return 1
    fi
    export PYTHONPATH=/tmp/site:$PWD/src PYTHONUNBUFFERED=1 KBV_REVISION=${REV:-}
    mkdir -p "$OUT"
    [ -d problems/kernelbench ] || python3 -m kbverified import-problems --from .kernelbench/KernelBench --suite kernelbench | tail -1
    cat > /tmp/gpu-generators.tsv <<'TSV'
generator	origin	dtype	devices	note
renamed-reference	import	fp32	cuda	references with another class name
TSV
    sed -e 's/^selection:/generators_tsv: \/tmp\/gpu-generators.tsv\n\nselection:/' config/kernelbench.yaml > /tmp/gpu.yaml
    nvidia-smi --query-gpu=index,uuid,clocks.sm,temperature.gpu --format=csv,noheader
    echo "large pages: $(cat /sys/kernel/mm/transparent_hugepage/enabled)"
    said setup, "$(nproc) cores"
}

# Which hardware threads share a core, and from then on the stages know it.
cores() {
    local told
    python3 -m benchmarks.core_pairs --cores 0 1 2 5 --json "$OUT/core-pairs.json" | tee /tmp/core-pairs.txt
    told=$(sed -n 's/^KBV_CORE_SIBLINGS=//p' /tmp/core-pairs.txt)
    [ -n "$told" ] && export KBV_CORE_SIBLINGS=$told
    said cores
}

# The GPU tests, with pytest's arguments.
tests() {
    KBV_GPU_TEST_OUT=/tmp/gpu-tests python3 tests/gpu/run.py --out "$OUT/tests" "$@" 2>&1 | tail -20
    rm -rf "$OUT/tests/records"
    said tests
}

# Renamed references through all stages: "one" on the first GPU, "two" on both, in the order in which they are named.
# JOBS: in flight for each GPU.
REFERENCES=${REFERENCES:-level1_1 level1_19 level1_25 level1_88 level2_12 level2_39 level2_53 level2_97}
references() {
    local name gpus problem sample
    # shellcheck disable=SC2086
    python3 -m benchmarks.references $REFERENCES --samples 2 > /tmp/references.txt || return 1
    for problem in $REFERENCES; do for sample in 0 1; do echo "renamed-reference/kernelbench/$problem/$sample"; done; done > /tmp/list.txt
    for name in "$@"; do
        gpus=$((2 * ${JOBS:-4}))
        [ "$name" = one ] && gpus=${JOBS:-4}
        rm -rf results/hidden-gate results/time-fp32 results/time-tf32 results/memory
        (
            [ "$name" = one ] && export CUDA_VISIBLE_DEVICES=0
            python3 -m kbverified device-run --list /tmp/list.txt --out "/tmp/run-$name" --no-audit --config /tmp/gpu.yaml \
                --minutes "${MINUTES:-4}" --grace-s 10 --reserve-s 10 --snakemake="--resources gpu=$gpus" \
                --revision "${REV:-}" > "$OUT/$name.log" 2>&1
            echo "$name: exit $?"
        )
        mv "/tmp/run-$name/records-1-of-1.tar.xz" "$OUT/$name.tar.xz" && python3 -m benchmarks.holds "$OUT/$name.tar.xz"
        said "$name"
    done
    [ -f "$OUT/one.tar.xz" ] && [ -f "$OUT/two.tar.xz" ] && python3 -m benchmarks.devices "$OUT/one.tar.xz" "$OUT/two.tar.xz"
    # shellcheck disable=SC2046
    python3 -m benchmarks.aa $(ls "$OUT"/one.tar.xz "$OUT"/two.tar.xz 2> /dev/null)
}

# Where the judge's time goes while it holds the GPU, and then the worker's: the gate of a renamed reference, each under
# cProfile.
profile() {
    local problem
    for problem in "$@"; do
        local about="--device cuda --timeout-s 120 --build-root /tmp/profile/build"
        local source=problems/kernelbench/$problem.py candidate=generations/renamed-reference/kernelbench/$problem/0.py
        python3 -m benchmarks.references "$problem" > /dev/null
        # shellcheck disable=SC2086
        python3 -m kbverified audit-problem --problem "$source" --out "/tmp/profile/$problem.json" $about
        # shellcheck disable=SC2086
        KBV_EVALUATOR=off python3 -m cProfile -o "/tmp/profile/$problem.prof" -m kbverified stage hidden-gate \
            --candidate "$candidate" --problem "$source" --audit "/tmp/profile/$problem.json" --out "/tmp/profile/$problem-gate.json" $about
        python3 -c "import pstats; s = pstats.Stats('/tmp/profile/$problem.prof'); s.sort_stats('cumtime').print_stats('kbverified', 45); s.sort_stats('tottime').print_stats(45)" \
            > "$OUT/profile-$problem.txt"
        python3 -m benchmarks.worker_profile "$source" > "/tmp/profile/$problem.py"
        # shellcheck disable=SC2086
        KBV_EVALUATOR=off python3 -m kbverified stage hidden-gate --candidate "/tmp/profile/$problem.py" --problem "$source" \
            --audit "/tmp/profile/$problem.json" --out "/tmp/profile/$problem-worker.json" $about
        python3 -c "import json; r = json.load(open('/tmp/profile/$problem-worker.json')); print(r['provenance']['device_hold_parts_s'], r['output_tail'])" \
            > "$OUT/profile-$problem-worker.txt"
    done
    said profile
}

# Faulty kernels through the gate for so many seconds, from where the last call stopped. MUTATION: more options.
mutants() {
    local earlier=
    [ -f .carry/mutants.tar.xz ] && earlier=.carry/mutants.tar.xz
    OUT="$OUT/mutants" bash benchmarks/mutation/on_gpu.sh "$1" .candidates "$earlier" | tail -12
    mv "$OUT/mutants/work.tar.xz" "$OUT/mutants.tar.xz"
    said mutants
}

# The A/A study for so many minutes, from where the last call stopped.
aa() {
    local earlier=()
    compgen -G '.carry/records-aa*.tar.xz' > /dev/null && earlier=(--resume .carry/records-aa*.tar.xz)
    python3 -m benchmarks.aa_run --problems problems/kernelbench --out /tmp/aa --minutes "$1" --revision "${REV:-}" "${earlier[@]}" 2>&1 | tail -15
    mv /tmp/aa/records-aa*.tar.xz "$OUT/" && python3 -m benchmarks.aa "$OUT"/records-aa*.tar.xz
    said aa
}
