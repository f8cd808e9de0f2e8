//go:build !unix

package exit

// Owner is not known here.
func Owner(string) (name string, other bool) { return "", false }
