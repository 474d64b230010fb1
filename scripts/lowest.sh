#!/usr/bin/env bash
# Runs the core tests with the lowest versions that pyproject.toml declares for the core dependencies, on Python 3.11.
#   scripts/lowest.sh                      the core rooms
#   scripts/lowest.sh tests/test_groups.py other arguments of pytest
# LOWEST is the environment (default /tmp/identifiable-lowest); it is made once and used again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
environment=${LOWEST:-/tmp/identifiable-lowest}

if [[ ! -x "$environment/bin/pytest" ]]; then
    "${PYTHON:-python3.11}" -m venv "$environment"
    # numpy>=2.0 is tried as the last release of 2.0.
    lowest=$("$environment/bin/python" -c '
import tomllib
for one in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]:
    print(one.replace(">=", "==") + ".*")')
    # shellcheck disable=SC2086  # one word for each package
    "$environment/bin/pip" install -q $lowest 'pandas<3' hypothesis pytest pytest-timeout pytest-xdist # pandas: tests of estimators
    "$environment/bin/pip" install -q --no-deps -e .
fi

# Rooms without optional libraries; a test that needs one is skipped.
core=(tests/ica tests/identifiability tests/disentanglement tests/alignment tests/dictionaries tests/diameter tests/unembedding
    tests/results tests/options tests/api/test_estimator.py tests/cli/test_resolve.py tests/cli/test_compare.py
    tests/test_blocks.py tests/test_bounds.py tests/test_compiling.py tests/test_groups.py tests/test_moments.py tests/test_neighbours.py
    tests/test_representation.py tests/test_rows.py tests/test_similarity.py)
[[ $# -gt 0 ]] || set -- "${core[@]}"
OMP_NUM_THREADS=1 exec "$environment/bin/pytest" -q -n 2 --dist worksteal "$@"
