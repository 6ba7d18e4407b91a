#!/usr/bin/env bash
# fuzz.sh TIME: runs every fuzz target of the module for TIME, one after the other, and stops at the first failure.
set -euo pipefail

cd "$(dirname "$0")/.."
time=$1
found=0
while IFS=: read -r file line; do
	found=1
	name=${line#func }
	name=${name%%(*}
	echo "== $(dirname "$file") $name"
	"${GO:-go}" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$(dirname "$file")"
done < <(grep -rHE '^func Fuzz[A-Za-z0-9_]*\(' --include='*_test.go' . | sort)
if [ "$found" = 0 ]; then
	echo "there are no fuzz targets"
fi
