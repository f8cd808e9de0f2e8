//go:build !linux && !darwin && !freebsd

package main

// mayWrite and freeSpace know nothing here: run finds out.
func mayWrite(string) bool { return true }

func freeSpace(string) (n int64, known bool) { return 0, false }
