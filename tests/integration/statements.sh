#!/bin/sh
# statements.sh - what the coordinator asks PostgreSQL; see statements.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/statements.mjs"
