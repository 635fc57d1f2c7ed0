#!/bin/sh
# network.sh - one network as `make run` starts it, the JavaScript tests
# against it, and nothing left of it afterwards.  See network.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/network.mjs" "$@"
