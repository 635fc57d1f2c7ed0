#!/bin/sh
# restart.sh - parts of a network end in every way and come back; see
# restart.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/restart.mjs"
