#!/bin/sh
# held.sh - what agents hold after a loss, word for word; see held.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/held.mjs"
