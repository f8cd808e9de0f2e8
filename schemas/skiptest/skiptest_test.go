package skiptest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestATestThatIsSkippedIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(Variable, path)
	t.Run("it", func(t *testing.T) { Skipf(t, "there is no %s here\ninstall it", "judge") })
	want := "TestATestThatIsSkippedIsCounted/it: there is no judge here install it\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}
