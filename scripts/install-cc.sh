#!/usr/bin/env bash
# Installs a C compiler when there is none: the race detector is the only thing here that needs one.
exec bash "$(dirname "$0")/apt-install.sh" gcc gcc libc6-dev
