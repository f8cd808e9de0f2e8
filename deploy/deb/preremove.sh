#!/bin/sh
# At an upgrade ("upgrade" for dpkg) it goes on. The store in /var/lib/doorbell stays in any case.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now doorbell.service
fi
