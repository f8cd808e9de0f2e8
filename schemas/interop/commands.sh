# Every new contact request, starting with the first in the stream, redelivered until acknowledged. next acknowledges what it prints.
nats consumer add LISTINGS crm --filter 'listings.v1.*.contact_request.created' --pull --deliver all --ack explicit --max-pending 1 --defaults
nats consumer next LISTINGS crm --count 2

# Look without leaving a trace: counts by agency and type, the newest event of a type, all events of an agency, new arrivals.
nats stream subjects LISTINGS
nats stream get LISTINGS --last-for 'listings.v1.A100.watch.baselined'
nats sub 'listings.v1.A100.>' --all --count 3
nats sub 'listings.v1.>' --count 1

# Replay the contact requests of the last hour, to yourself only, and read them.
doorbell replay --type contact_request.created --since 1h --job crm-2
nats consumer add LISTINGS_REPLAY crm-2 --filter 'listings.replay.crm-2.>' --pull --deliver all --ack explicit --defaults
nats consumer next LISTINGS_REPLAY crm-2 --count 1

# The events that receivers permanently rejected, and the next heartbeat.
nats sub 'listings.dlq.>' --all --count 1
nats sub 'listings.heartbeat.*' --count 1
