package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field reads the first line `name: value` of a file; or "".
func field(path, name string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// fsyncTime is the median time of writing 4 KiB to the end of a file and making it durable.
func fsyncTime(dir string) time.Duration {
	f := must(os.Create(filepath.Join(dir, "fsync")))
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	took := make([]time.Duration, 0, 200)
	for range cap(took) {
		began := time.Now()
		must(f.Write(page))
		check(f.Sync())
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return percentile(took, 0.5)
}

// preface says what was measured on what.
func (b *bench) preface(d *document) {
	d.WriteString("# Performance\n\n")
	d.text("Written by `make bench` on %s. Systems are measured in turns, in one run: %d round(s) of %v for each system and level. Figures are "+
		"medians of the %d at which the rest of the machine did least. Only ratios carry over to another machine. "+
		"[What planning with a model costs](performance-planning.md) and [what each fast path saves](performance-fast-paths.md) are measured apart.",
		b.began.UTC().Format("2006-01-02 15:04 UTC"), b.rounds, b.each, quieter(b.rounds))
	gogc := "100 to 300, which our servers set themselves: 10 to 20 MB between two collections"
	if v := os.Getenv("GOGC"); v != "" {
		gogc = v + ", from the environment"
	}
	kernel := must(os.ReadFile("/proc/sys/kernel/osrelease")) // this program measures through Linux's /proc
	d.table([]string{"machine", ""}, [][]string{
		{"cores", fmt.Sprintf("%d (%s)", runtime.NumCPU(), field("/proc/cpuinfo", "model name"))},
		{"memory", field("/proc/meminfo", "MemTotal")},
		{"kernel", strings.TrimSpace(string(kernel))},
		{"Go", runtime.Version()},
		{"write of 4 KiB and fsync", fmt.Sprintf("%.2f ms", milliseconds(fsyncTime(b.work)))},
		{"GOGC", gogc},
		{"built from", b.version},
	})
	if b.quick {
		d.text("**A quick look: one round, a tenth of the tasks.** Not for a record.")
	}
}

// What counts as a quiet machine while none of the measured systems has work, and how long one look takes.
const (
	quietShare = 0.15
	quietLook  = 250 * time.Millisecond
)

// awaitQuiet waits until the rest of the machine does little, as long as there is patience left for this run.
func (b *bench) awaitQuiet(ctx context.Context) {
	for ; ; b.patience -= quietLook {
		before, began := must(machineSeconds()), time.Now()
		select {
		case <-time.After(quietLook):
		case <-ctx.Done():
			check(ctx.Err())
		}
		busy := (must(machineSeconds()) - before) / time.Since(began).Seconds() / float64(runtime.NumCPU())
		if busy < quietShare || b.patience <= 0 {
			return
		}
	}
}

// ticksPerSecond is USER_HZ, which is 100 wherever Go runs on Linux.
const ticksPerSecond = 100

// cpuSeconds is what a process has computed so far, for itself and in the kernel.
func cpuSeconds(pid int) (float64, error) {
	f, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return ticks(f, 11, 12)
}

// ticks adds up fields that count ticks, in seconds.
func ticks(fields []string, which ...int) (seconds float64, err error) {
	for _, i := range which {
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, err
		}
		seconds += n / ticksPerSecond
	}
	return seconds, nil
}

// statFields are the fields of /proc/PID/stat behind the program's name, which may hold spaces; the first is the state.
func statFields(pid int) ([]string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 15 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// anonymousMB is the memory of a process that no file stands behind.
func anonymousMB(pid int) (float64, error) {
	value, _, _ := strings.Cut(field(fmt.Sprintf("/proc/%d/status", pid), "RssAnon"), " ")
	kb, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return kb / 1024, nil
}

// children are the processes that one has started.
func children(pid int) []int {
	var found []int
	for _, path := range must(filepath.Glob("/proc/[0-9]*/stat")) {
		child := must(strconv.Atoi(filepath.Base(filepath.Dir(path))))
		// A process that has just ended has no parent.
		if f, err := statFields(child); err == nil && f[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found
}

// machineSeconds is what all processes and the kernel have computed since the machine was started.
func machineSeconds() (float64, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", first)
	}
	// user, nice, system; then idle and iowait, which are none; then irq, softirq and steal.
	return ticks(fields, 1, 2, 3, 6, 7, 8)
}
