package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is what is known of the build.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readVersion reads what the Go command wrote into the program. It is also the version in the User-Agent.
func readVersion() Version {
	v := Version{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; m != "" && m != "(devel)" {
		v.Version = m
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func cmdVersion(_ context.Context, p *program, c *VersionCmd) error {
	v := readVersion()
	if c.JSON {
		return p.printJSON(v)
	}
	_, err := fmt.Fprintf(p.stdout, "doorbell %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	return err
}

// version is the short form, as in the User-Agent.
func version() string { return readVersion().Version }
