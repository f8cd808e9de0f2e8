package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
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

// A program that may lie anywhere (-buildmode=pie) has such parts: the loader writes addresses into them.
func TestWhatDiffersFromTheProgramsFileIsNotGivenBack(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	part, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(part) //nolint:errcheck // the test is over
	part[0]++
	want := part[0]
	if err := syscall.Mprotect(part, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	releaseProgram()
	if part[0] != want {
		t.Error("what the loader has written is gone")
	}
}
