#!/bin/sh
# points.sh - a part dies at some of the points between two steps; make chaos
# tries them all.  See tests/chaos/points.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here/../.." || exit 1
"${MAKE:-make}" -s MODE=debug programs >/dev/null || exit 1
unset BERTH_BIN
exec "$here/with_node" tests/chaos/points.mjs core.attempt_sent core.end_begun \
    writer.committed agent.journal.append engine.tokens
