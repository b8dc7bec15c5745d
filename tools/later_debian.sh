#!/usr/bin/env bash
# Downloads packages of a Debian release later than this machine's and unpacks them into a folder;
# nothing is installed. The mirror is the one from which apt installs Debian's packages here.
# Usage: later_debian.sh RELEASE FOLDER PACKAGE[=VERSION[:SHA256]]... Exits 1 if one cannot be had.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
release=$1 folder=$2
shift 2

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
  grep --invert-match --max-count=1 security || true)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$folder"
echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "$mirror $release main" > "$work/sources.list"
# Lists of its own: the machine's sources stay as they are.
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=-
     -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=
     -o Acquire::Languages=none -o Acquire::Retries=2)
folder=$(realpath "$folder")
cd "$work"
fail() {
  sed 's/^/  /' log >&2
  echo "later_debian: no $1 in $release" >&2
  exit 1
}
"${apt[@]}" update > log 2>&1 || fail "lists of packages"
for wanted in "$@"; do
  package=${wanted%%[=:]*}
  "${apt[@]}" download "${wanted%%:*}" > log 2>&1 || fail "${wanted%%:*}"
  if [[ $wanted == *:* ]]; then
    sha256sum --status --check <<< "${wanted#*:}  $(echo "$package"_*.deb)" || fail "$wanted"
  fi
  dpkg-deb -x "$package"_*.deb "$folder"
done
