package cli

import (
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
)

func TestMain(m *testing.M) { doorbelltest.RunTests(m, Process, Main, false) }
