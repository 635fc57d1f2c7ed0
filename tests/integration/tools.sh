#!/bin/sh
# tools.sh - tools and reasoning through stock clients; see tools.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/tools.mjs"
