#!/bin/sh
# weights.sh - a model with one matrix of zeros answers wrongly; see
# weights.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/weights.mjs"
