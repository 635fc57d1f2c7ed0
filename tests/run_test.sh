#!/bin/sh
# run_test.sh - tests/run against programs whose results are known.
# Run from the repository root.

work=$(mktemp -d "${TMPDIR:-/tmp}/berth-run-test.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# expect NAME STATUS LAST_LINE [TEXT]: what tests/run must have done, with
# TEXT somewhere in its output.
expect() {
    name=$1
    last=$(tail -n 1 "$work/out")
    if [ "$status" -ne "$2" ] || [ "$last" != "$3" ]; then
        echo "not ok $name: status $status, last line \"$last\""
    elif [ -n "${4:-}" ] && ! grep -qF -e "$4" "$work/out"; then
        echo "not ok $name: no \"$4\" in the output"
    else
        echo "ok $name"
    fi
}

run() {
    tests/run "$@" >"$work/out" 2>&1
    status=$?
}

script() {
    printf '#!/bin/sh\n%s\n' "$2" >"$work/$1"
    chmod +x "$work/$1"
}

script good.sh 'echo "ok a"; echo "ok b"'
script bad.sh 'echo "ok a"; echo "not ok b"; echo detail; exit 1'
script skips.sh 'echo "ok a"; echo "skip b: no kernel support"'
script only_skips.sh 'echo "skip b: no kernel support"'
script dies.sh 'echo "ok a"; kill -SEGV $$'
script silent.sh ':'
script hangs.sh 'echo "ok a"; sleep 60 & wait'

run "$work/good.sh"
expect all_good_exits_0 0 "2 passed, 0 failed"
run "$work/good.sh" "$work/bad.sh"
expect a_failure_exits_1 1 "3 passed, 1 failed"
expect a_failure_shows_its_output 1 "3 passed, 1 failed" "detail"
run "$work/skips.sh"
expect a_skip_is_named 0 "1 passed, 0 failed" "b: no kernel support"
run "$work/only_skips.sh"
expect only_skips_is_nothing_ran 1 "0 passed, 0 failed"
run "$work/dies.sh"
expect a_crash_is_one_failure 1 "1 passed, 1 failed"
run "$work/silent.sh" "$work/good.sh"
expect a_silent_program_has_failed 1 "2 passed, 1 failed" "reported nothing"
run "$work/missing.sh" "$work/good.sh"
expect a_missing_program_has_failed 1 "2 passed, 1 failed" "no such file"
run -t 1 "$work/hangs.sh" "$work/good.sh"
expect a_hang_is_one_failure 1 "3 passed, 1 failed" "no end within 1 s"
run
expect no_program_is_wrong_usage 2 "usage: tests/run [-t SECONDS] PROGRAM..."

cat >"$work/sample.c" <<'EOF'
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
static const char *mode;
static void passes(void **state) { (void)state; }
static void varies(void **state)
{
    (void)state;
    if (strcmp(mode, "fail") == 0) fail();
    if (strcmp(mode, "skip") == 0) skip();
    if (strcmp(mode, "abort") == 0) abort();
    if (strcmp(mode, "exit") == 0) exit(0);
}
int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes),
                                       cmocka_unit_test(varies)};
    mode = getenv("SAMPLE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
EOF
# The flags are a list.
# shellcheck disable=SC2046
if ! ${CC:-cc} -o "$work/sample" "$work/sample.c" \
    $(pkg-config --cflags --libs cmocka 2>/dev/null) 2>"$work/why"; then
    echo "skip cmocka_programs: cannot build the sample"
    exit 0
fi
sample() {
    SAMPLE=$1
    export SAMPLE
    run "$work/sample"
}
sample pass
expect cmocka_passes_are_counted 0 "2 passed, 0 failed"
sample fail
expect cmocka_failures_are_counted 1 "1 passed, 1 failed" varies
sample skip
expect cmocka_skips_are_named 0 "1 passed, 0 failed" "sample: varies"
sample abort
expect an_abort_is_one_failure 1 "0 passed, 1 failed" "no report"
sample exit
expect an_early_exit_is_one_failure 1 "0 passed, 1 failed" "0 of 2"
