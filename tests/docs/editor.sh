#!/bin/sh
# An owner who declares bounds, a target, clusters and sources
sed -i -e 's/^lower = "?"/lower = 0.0/' -e 's/^upper = "?"/upper = 200.0/' "$1"
sed -i -e 's/_target = "?"/_target = "robust"/' -e 's/^clusters = "?"/clusters = "none"/' "$1"
sed -i -e 's/= "?"/= "a codebook"/' "$1"
