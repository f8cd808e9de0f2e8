package torture

import (
	"fmt"
	"os"
	"testing"

	"doorbell/cmd/doorbell/cli"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/natsd/natsdtest"
)

func TestMain(m *testing.M) {
	if size := os.Getenv(cheapInsertions); size != "" {
		serveCheaply(size)
		return
	}
	if dir := os.Getenv(latencyLimit); dir != "" {
		fmt.Fprintln(os.Stderr, commitAndPublish(dir))
		os.Exit(1)
	}
	if os.Getenv(backlogDaemon) != "" {
		if err := runWithBacklog(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	doorbelltest.RunTests(m, cli.Process, cli.Main, natsdtest.Given("rounds"))
}
