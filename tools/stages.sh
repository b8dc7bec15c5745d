#!/usr/bin/env bash
# Runs commands one after another, each with a name, and prints how long each took; stops at the
# first that fails. Usage: stages.sh NAME=COMMAND...
set -uo pipefail

times=""
began=$SECONDS
for stage in "$@"; do
  name=${stage%%=*}
  echo "== $name"
  start=$SECONDS
  bash -c "${stage#*=}"
  status=$?
  times+=$(printf '%6d s  %s' $((SECONDS - start)) "$name")$'\n'
  echo "== $name: $((SECONDS - start)) s"
  [ $status -eq 0 ] || { echo "== $name failed"; break; }
done
[ $# -eq 1 ] || printf '\n%s%6d s  in all\n' "$times" $((SECONDS - began))
exit ${status:-0}
