#!/bin/sh
# killed.sh - fifty answers under each of which an agent, an engine or the
# coordinator is killed; see killed.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/killed.mjs"
