//go:build !linux && !darwin && !freebsd

package main

import "os"

func terminalSize(*os.File) (width, height int) { return 0, 0 }

func resized() (told <-chan os.Signal, stop func()) { return nil, func() {} }
