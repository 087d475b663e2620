#!/usr/bin/env bash
# Tests with real spaCy and a trained pipeline, in an environment of their own: they are too large for everybody's.
# Where the index does not have them it says so, and is done.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=.venv-models/spacy
log=$folder/install.log

if [[ ! -e $folder/.installed || pyproject.toml -nt $folder/.installed ]]; then
  "${PYTHON:-python3}" -m venv "$folder"
  echo "installing spaCy and a pipeline into $folder: a minute"
  if ! "$folder/bin/python" -m pip --disable-pip-version-check install -e '.[spacy,test-spacy]' >"$log" 2>&1; then
    echo "test-models: spaCy skipped: it cannot be installed here"
    tail -n 3 "$log" | cut -c 1-300
    exit 0
  fi
  touch "$folder/.installed"
fi
# The libraries' own warnings are theirs.
"$folder/bin/python" -m pytest -W default -p no:cacheprovider tests/spacy
