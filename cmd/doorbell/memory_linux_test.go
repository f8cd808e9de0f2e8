package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// programPages is how many KB of this program's file are mapped at the moment.
func programPages(t *testing.T) int {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	sum, ours := 0, false
	for line := range strings.Lines(string(smaps)) {
		f := strings.Fields(line)
		switch {
		case !strings.HasSuffix(f[0], ":"):
			ours = strings.HasSuffix(line, " "+path+"\n") && !strings.Contains(f[1], "w")
		case ours && f[0] == "Rss:":
			kb, _ := strconv.Atoi(f[1])
			sum += kb
		}
	}
	return sum
}

// touchProgram maps all of the program.
func touchProgram(t *testing.T) {
	t.Helper()
	path, _ := os.Executable()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close() //nolint:errcheck // it was only read
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil || !strings.HasSuffix(line, " "+path+"\n") {
			continue
		}
		for ; from < to; from += 4096 {
			if _, err := memory.ReadAt(make([]byte, 1), from); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestWhatTheStartHasMappedOfTheProgramIsGivenBackAMinuteLaterAndEachHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		go stayLight(ctx) //nolint:errcheck // it has none
		for _, wait := range []time.Duration{leaveFirst, leaveEvery, leaveEvery} {
			time.Sleep(wait - time.Second)
			synctest.Wait()
			touchProgram(t)
			before := programPages(t)
			time.Sleep(time.Second)
			synctest.Wait()
			if after := programPages(t); after > before/2 {
				t.Errorf("%d KB of the program are mapped, after %d", after, before)
			}
		}
		stop()
	})
}
