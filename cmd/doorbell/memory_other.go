//go:build !linux

package main

// releaseProgram does nothing: how to ask for it differs from system to system.
func releaseProgram() {}
