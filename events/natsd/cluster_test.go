package natsd

import (
	"context"
	"errors"
	"testing"
)

func TestAClusterThatIsGivenUpWhileItStartsIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartCluster(ctx, "127.0.0.1", t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
