#!/bin/sh
# check.sh - the lint as one check of `make check`.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if output=$(sh "$here/lint" 2>&1); then
    printf '%s\n' "$output" | grep -i '^skip' || :
    echo "ok the sources keep the rules of docs/CONTRIBUTING.md"
else
    printf '%s\n' "$output"
    echo "not ok the sources keep the rules of docs/CONTRIBUTING.md"
fi
