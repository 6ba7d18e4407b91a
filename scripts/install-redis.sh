#!/usr/bin/env bash
# Installs redis-server when it is missing. The tests start servers of their own; one that runs already is not used.
exec bash "$(dirname "$0")/apt-install.sh" redis-server redis-server
