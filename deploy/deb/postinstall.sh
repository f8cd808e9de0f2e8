#!/bin/sh
# The unit is not started: first it needs DOORBELL_BASE_URL and a key. One that runs already gets the new program.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart doorbell.service || true # it is installed in any case
fi
