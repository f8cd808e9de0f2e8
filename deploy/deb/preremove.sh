#!/bin/sh
# On an upgrade ("upgrade" for dpkg) it keeps running. The store in /var/lib/doorbell always stays.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now doorbell.service
fi
