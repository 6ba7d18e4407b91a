#!/usr/bin/env bash
# apt-install.sh COMMAND PACKAGE...: installs the packages when COMMAND is missing, and fails when it still is.
set -euo pipefail

command=$1
shift
if command -v "$command" >/dev/null; then
	exit 0
fi

give_up() {
	echo "$command is missing and cannot be installed here: $1" >&2
	echo "Install it by hand (on Debian and Ubuntu: apt-get install $packages) and try again." >&2
	exit 1
}

packages=$*
command -v apt-get >/dev/null || give_up "there is no apt-get"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || give_up "that needs root, and there is no sudo"
	as_root=(sudo)
fi

echo "$command is missing: installing $packages with apt-get" >&2
apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" >&2; }
apt_get update || give_up "apt-get update failed"
apt_get install -y --no-install-recommends "$@" || give_up "apt-get install failed"
command -v "$command" >/dev/null || give_up "$packages did not bring it"
