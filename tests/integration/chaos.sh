#!/bin/sh
# chaos.sh - the judge of a campaign catches what it must, and a short campaign
# is judged sound.  make chaos runs a long one; docs/chaos.md.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
"$here/with_node" "$here/../chaos/check_test.mjs" || exit 1
SEED=${SEED:-20} FAULTS=${FAULTS:-25} CHAOS_SHORT=yes \
    exec "$here/with_node" "$here/../chaos/chaos.mjs"
