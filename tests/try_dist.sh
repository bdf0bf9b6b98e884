#!/bin/sh
# Builds the sdist, and the wheel from it, into build/dist; tries the wheel in a fresh environment of every Python
# that is named and installed: pip's check, a study, a release. From the checkout: tests/try_dist.sh PYTHON NAME...
set -eu

python="$1"
shift
checkout="$PWD"
dist="$checkout/build/dist"
rm -rf "$dist"
mkdir -p "$dist"
"$python" -m venv "$dist/builder"
"$dist/builder/bin/pip" install --quiet --disable-pip-version-check 'setuptools>=77' wheel
"$dist/builder/bin/python" -c "from setuptools import build_meta; build_meta.build_sdist('$dist')" >/dev/null 2>&1
"$dist/builder/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$dist" "$dist"/*.tar.gz
rm -rf "$dist/builder" "$checkout"/*.egg-info/SOURCES.txt
ls "$dist"

for name in "$@"; do
    if ! "$name" -c "" >/dev/null 2>&1; then
        echo "$name is not installed, and not tried"
        continue
    fi
    place="$(mktemp -d)"
    "$name" -m venv "$place/env"
    "$place/env/bin/pip" install --quiet --disable-pip-version-check --constraint constraints.txt "$dist"/*.whl
    "$place/env/bin/pip" check
    (
        cd "$place"
        export HOME="$place/user" XDG_DATA_HOME="$place/share" PREFECT_SERVER_ANALYTICS_ENABLED=false
        unset DPCOST_HOME DPCOST_DATA_MIRROR
        env/bin/dpcost --help >/dev/null
        env/bin/dpcost studies
        env/bin/dpcost run housing --profile smoke --offline
        printf 'age\n%s\n' "$(seq 20 79)" >people.csv
        printf '[dataset]\nname = "people"\n[columns]\nx = ["age"]\n[bounds]\nvalue_bound = 100.0\n' >release.toml
        env/bin/dpcost ledger open people --epsilon 2 --delta 1e-3
        env/bin/dpcost release dp_mean --data people.csv --config release.toml --epsilon 1 --delta 1e-4 --yes
    )
    rm -rf "$place"
    echo "$name: the wheel is whole"
done
