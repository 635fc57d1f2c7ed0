#!/bin/sh
# pressure.sh - slow readers, no descriptors, a full disk, a database that
# hangs or dies; see pressure.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/pressure.mjs"
