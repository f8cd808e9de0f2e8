// Command doorbell polls a listings API that has no events of its own, and publishes what changes
// to NATS JetStream, Slack, Teams, e-mail and webhooks.
package main

import (
	"os"

	"doorbell/cmd/doorbell/cli"
)

func main() { os.Exit(cli.Process()) }
