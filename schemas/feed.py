#!/usr/bin/env python3
"""Prints every event as one line of JSON: FEED=http://127.0.0.1:3667/v1/events TOKEN=... python3 feed.py CURSOR_FILE"""
import http.client, json, os, sys, time, urllib.error, urllib.parse, urllib.request

feed = os.environ.get("FEED", "http://127.0.0.1:3667/v1/events")
headers = {"Authorization": "Bearer " + os.environ["TOKEN"]} if os.environ.get("TOKEN") else {}
file = sys.argv[1]
cursor = open(file).read() if os.path.exists(file) else ""  # if there is none, start with the oldest event

def take(event):
    # Your program. Remember event["id"]: after a crash an event is sent again with the same id.
    print(json.dumps(event), flush=True)

while True:
    query = urllib.parse.urlencode({"after": cursor, "timeout": "30s"})  # and agency, type, limit
    try:
        request = urllib.request.Request(feed + "?" + query, headers=headers)
        with urllib.request.urlopen(request, timeout=90) as response:
            events, behind = json.load(response), response.headers["doorbell-feed-cursor"]
    except (OSError, ValueError, http.client.HTTPException) as e:
        if isinstance(e, urllib.error.HTTPError) and e.code < 500:
            sys.exit(f"{e.code}: {e.read(1000).decode()}")  # the token or the cursor is invalid
        time.sleep(float(os.environ.get("PAUSE", "5")))
        continue
    for event in events:
        take(event)
    if behind != cursor:  # only after everything is processed
        with open(file + ".new", "w") as f:
            f.write(behind)
        os.replace(file + ".new", file)
        cursor = behind
