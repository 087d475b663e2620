#!/usr/bin/env bash
# Tests with the real sentence-transformers, in an environment of their own: torch is too large for everybody's.
# Where no CPU build of torch resolves (or only one that brings gigabytes of GPU libraries) it says so, and is done.
set -euo pipefail
cd "$(dirname "$0")/../.."
torch=torch==2.13.0
folder=.venv-models
log=$folder/install.log

skip() {
  echo "test-models: skipped: $1"
  tail -n 3 "$log" | cut -c 1-300
  exit 0
}

pip() {
  "$folder/bin/python" -m pip --disable-pip-version-check "$@" >>"$log" 2>&1
}

if [[ ! -e $folder/.installed || pyproject.toml -nt $folder/.installed ]]; then
  "${PYTHON:-python3}" -m venv "$folder"
  : >"$log"
  pip install --dry-run "$torch" || skip "$torch does not resolve here"
  if grep -qiE '(would install|collecting).*nvidia' "$log"; then skip "$torch resolves to a build for GPUs only"; fi
  echo "installing $torch and sentence-transformers into $folder: a minute or two"
  pip install "$torch" || skip "$torch cannot be installed here"
  pip install -e '.[embedded,transformers,test-models]' "$torch" || skip "sentence-transformers cannot be installed here"
  touch "$folder/.installed"
fi
# Nothing is downloaded, and the libraries' own warnings are theirs.
HF_HUB_OFFLINE=1 "$folder/bin/python" -m pytest -W default -p no:cacheprovider tests/models
