# Every new contact request from the first one in the stream on, each until it is acknowledged; next acknowledges what it prints.
nats consumer add LISTINGS crm --filter 'listings.v1.*.contact_request.created' --pull --deliver all --ack explicit --max-pending 1 --defaults
nats consumer next LISTINGS crm --count 2

# Look without leaving a trace: what there is by agency and type, the newest of a kind, all of an agency, what arrives now.
nats stream subjects LISTINGS
nats stream get LISTINGS --last-for 'listings.v1.A100.watch.baselined'
nats sub 'listings.v1.A100.>' --all --count 3
nats sub 'listings.v1.>' --count 1

# Send the contact requests of the last hour once more, to yourself alone, and read them.
doorbell replay --type contact_request.created --since 1h --job crm-2
nats consumer add LISTINGS_REPLAY crm-2 --filter 'listings.replay.crm-2.>' --pull --deliver all --ack explicit --defaults
nats consumer next LISTINGS_REPLAY crm-2 --count 1

# What a receiver permanently rejected, and the next heartbeat.
nats sub 'listings.dlq.>' --all --count 1
nats sub 'listings.heartbeat.*' --count 1
