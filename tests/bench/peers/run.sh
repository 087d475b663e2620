#!/usr/bin/env bash
# Peers in environments of their own, and the comparison. Where packages cannot be had it says so, and goes on: a peer
# without its environment is skipped. Arguments go to tests.bench.peers.
set -euo pipefail
cd "$(dirname "$0")/../../.."
requirements=tests/bench/peers

# FOLDER REQUIREMENTS: installed once, and again when its requirements change. Builds of torch for GPUs are gigabytes.
environment() {
  local folder=$1 wanted=$2 log=$1/install.log
  [[ ! -e $folder/.installed || $wanted -nt $folder/.installed ]] || return 0
  "${PYTHON:-python3}" -m venv "$folder"
  local pip=("$folder/bin/python" -m pip --disable-pip-version-check install)
  "${pip[@]}" --dry-run -r "$wanted" >"$log" 2>&1 || { skip "$folder" "$wanted does not resolve here"; return 0; }
  if grep -qiE '(would install|collecting).*nvidia' "$log"; then
    skip "$folder" "torch resolves to a build for GPUs only"
    return 0
  fi
  echo "installing $wanted into $folder: some minutes"
  "${pip[@]}" -r "$wanted" >>"$log" 2>&1 || { skip "$folder" "$wanted cannot be installed here"; return 0; }
  touch "$folder/.installed"
}

skip() {
  echo "bench-peers: no $1: $2"
  tail -n 3 "$1/install.log" | cut -c 1-300
  rm -rf "$1"
}

environment .venv-peers "$requirements/requirements.txt"
environment .venv-peers-hindsight "$requirements/requirements-hindsight.txt"
exec .venv/bin/python -m tests.bench.peers "$@"
