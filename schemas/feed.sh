#!/bin/sh
# Prints every event as one line of JSON: FEED=http://127.0.0.1:3667/v1/events TOKEN=... sh feed.sh CURSOR_FILE
# It needs curl and jq.
set -eu
feed=${FEED:-http://127.0.0.1:3667/v1/events}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

while :; do
  after=$(cat "$1" 2>/dev/null || true) # if there is none, start with the oldest event
  code=$(printf '%s\n' ${TOKEN:+"header = \"Authorization: Bearer $TOKEN\""} |
    curl -sS -K - -G "$feed" -d "after=$after" -d timeout=30s --max-time 90 \
      -D "$dir/head" -o "$dir/body" -w '%{http_code}') || code=000
  case $code in
  200) ;;
  4*) cat "$dir/body" >&2 && exit 1 ;; # the token or the cursor is invalid
  *) sleep "${PAUSE:-5}" && continue ;;
  esac
  jq -c '.[]' "$dir/body" # your program. Remember .id: after a crash an event is sent again with the same id
  tr -d '\r' <"$dir/head" | sed -n 's/^[Dd]oorbell-[Ff]eed-[Cc]ursor: //p' >"$1.new"
  mv "$1.new" "$1" # only after everything is processed
done
