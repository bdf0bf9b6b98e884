#!/bin/sh
# Installs Debian's Chromium for the tests marked `browser`; does nothing where a Chromium is there already.
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done

if ! command -v apt-get >/dev/null 2>&1; then
    echo "no Chromium on the PATH, and no apt-get to install one with; install Chromium by hand" >&2
    exit 1
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
} >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
fi
