package schemas_test

import (
	"os"
	"path/filepath"
	"testing"

	"doorbell/schemas/skiptest"
)

func TestATestThatIsSkippedIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(skiptest.Variable, path)
	t.Run("it", func(t *testing.T) { skiptest.Skipf(t, "there is no %s here\ninstall it", "judge") })
	want := "TestATestThatIsSkippedIsCounted/it: there is no judge here install it\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}
