#!/usr/bin/env bash
# The first ten minutes of a newcomer: the wheel into an empty environment, README's example, the demo.
#
#   benchmarks/first_contact.sh > docs/first-contact.md
#
# Wall and processor seconds of each step, packages and megabytes. PYTHON names the interpreter.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK=1 NUMBA_CACHE_DIR="$folder/compiled"

commit=$(git -C "$root" rev-parse --short=8 HEAD)
[ -z "$(git -C "$root" status --porcelain -- src pyproject.toml README.md)" ] || commit="$commit, with changes"

load=$(cut -d' ' -f1 /proc/loadavg)
TIMEFORMAT='%R %U %S'
declare -A row
step() { # NAME COMMAND…: runs it in the folder and keeps its times
  local name=$1 times
  shift
  times=$( { time (cd "$folder" && "$@" >>log 2>&1); } 2>&1) || { tail -n 30 "$folder/log" >&2; exit 1; }
  row[$name]=$(awk '{ printf "%.1f | %.1f", $1, $2 + $3 }' <<<"$times")
}

"${PYTHON:-python3}" -m pip wheel --quiet --no-deps --wheel-dir "$folder" "$root" >&2
"${PYTHON:-python3}" -m venv "$folder/venv"
python="$folder/venv/bin/python"
empty=$(du -sm "$folder/venv" | cut -f1)
step install "$python" -m pip install --quiet "$folder"/unskew-*.whl
packages=$("$python" -m pip list --format=freeze | grep -cvE '^(pip|setuptools|wheel)==')
megabytes=$(($(du -sm "$folder/venv" | cut -f1) - empty))
largest=$(cd "$folder"/venv/lib/python*/site-packages && du -sm -- */ | sort -rn | head -n 5 |
  awk '{ sub("/", "", $2); printf "%s%s %d MB", (NR > 1 ? ", " : ""), $2, $1 }')

# The example "With numbers of your own": the second block of Python on README's page.
awk '/^```python$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside && n == 2' \
  "$root/README.md" >"$folder/example.py"
step example "$python" example.py
step again "$python" example.py
step demo "$folder/venv/bin/unskew" demo

version=$("$python" -c 'import platform; print(platform.python_version())')
cat <<PAGE
# The first ten minutes

**The default install has $packages packages and $megabytes MB; the demo takes $(cut -d'|' -f2 <<<"${row[demo]}" | xargs) seconds of processor time.** What a newcomer
waits for, from the wheel in an empty environment to the page of the demo.

| step | wall seconds | processor seconds |
|---|---|---|
| \`pip install unskew-….whl\` | ${row[install]} |
| README's example "With numbers of your own" | ${row[example]} |
| the same again | ${row[again]} |
| \`unskew demo\` | ${row[demo]} |

The five largest folders: $largest. Megabytes are those of the environment after
the install, bytecode included, less those of an empty one.

Measured at commit $commit with Python $version by \`benchmarks/first_contact.sh > docs/first-contact.md\`, on $(nproc) core(s) at a load of $load
(1: nothing else ran). Wall seconds count that load, and those of the install the connection to the package index.
PAGE
