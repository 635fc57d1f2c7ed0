#!/bin/sh
# commands.sh - command lines that need no network: exit statuses, and output
# that cannot be written.
bin=${BERTH_BIN:-build/bin}
home=$(mktemp -d "${TMPDIR:-/tmp}/berth-commands.XXXXXX") || exit 1
trap 'rm -rf "$home"' EXIT
failed=0

# check NAME STATUS COMMAND...: does the command end so?
check()
{
    name=$1
    wanted=$2
    shift 2
    mv "$home/err" "$home/err.was" 2>/dev/null
    "$@" >"$home/out" 2>"$home/err" </dev/null
    got=$?
    if [ "$got" -eq "$wanted" ]; then
        echo "ok $name"
    else
        echo "not ok $name: exit status $got, not $wanted"
        failed=1
    fi
}

agent=$bin/berth-node
engine=$bin/berth-engine
export BERTH_HOME="$home/agent"
# shellcheck disable=SC2016 # the inner shell puts the words in
into_full='exec "$@" >/dev/full'

check a_missing_configuration_is_misuse 2 "$agent" config --config "$home/none"
check a_missing_recording_is_misuse 2 "$agent" probe --replay "$home/none"
check run_takes_no_profile 2 "$agent" run --profile "$home"
check status_takes_no_name 2 "$agent" status --name x
check config_prints_json 0 "$agent" config --json
check nothing_was_made 1 test -e "$home/agent"
check a_noun_explains_itself 0 "$bin/berth" ledger --help
check a_noun_alone_is_misuse 2 "$bin/berth" ledger
if prlimit --version >/dev/null 2>&1; then
    for files in 4 6 8; do
        check "with_${files}_files_nothing_starts" 1 \
            prlimit --nofile=$files "$bin/berth-coordinator" --dev "$home/dev"
        check "and_it_says_so_of_$files" 0 grep -q 'ulimit -n' "$home/err.was"
    done
else
    echo "skip few_files: no prlimit here"
fi
if [ -e /dev/full ]; then
    check the_agent_tells_of_lost_output 1 sh -c "$into_full" sh \
        "$agent" config
    check the_engine_tells_of_lost_output 1 sh -c "$into_full" sh \
        "$engine" tokenize --model tests/models/tiny-chat x
else
    echo "skip lost_output: no /dev/full here"
fi
exit $failed
