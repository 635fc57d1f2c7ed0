#!/bin/sh
# join.sh - whom a joining machine trusts; see join.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/join.mjs"
