#!/bin/sh
# formats.sh - every quantised format against plain floats; see formats.mjs.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "$here/with_node" "$here/formats.mjs"
