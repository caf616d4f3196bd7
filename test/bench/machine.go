package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine is what figures depend on.
type machine struct {
	cpu    string
	memory string
	kernel string
	fsync  time.Duration
}

// inspect looks at the machine and measures its disk in a folder.
func inspect(dir string) (m machine, err error) {
	m.cpu = field("/proc/cpuinfo", "model name")
	m.memory = field("/proc/meminfo", "MemTotal")
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, fmt.Errorf("this program measures through Linux's /proc: %w", err)
	}
	m.kernel = strings.TrimSpace(string(release))
	m.fsync, err = fsyncTime(dir)
	return m, err
}

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
func fsyncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	took := make([]time.Duration, 0, 200)
	for range cap(took) {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return percentile(took, 0.5), nil
}

// preface says what was measured on what.
func (b *bench) preface(d *document) {
	d.b.WriteString("# Performance\n\n")
	d.text("Written by `make bench` on %s. Systems are measured in turns, in one run: %d round(s) of %v for each system and level. Figures are "+
		"medians of the %d at which the rest of the machine did least. Only ratios carry over to another machine.",
		b.began.UTC().Format("2006-01-02 15:04 UTC"), b.rounds, b.each, quieter(b.rounds))
	gogc := "100 to 300, which our servers set themselves: 10 to 20 MB between two collections"
	if v := os.Getenv("GOGC"); v != "" {
		gogc = v + ", from the environment"
	}
	d.table([]string{"machine", ""}, [][]string{
		{"cores", fmt.Sprintf("%d (%s)", runtime.NumCPU(), b.machine.cpu)},
		{"memory", b.machine.memory},
		{"kernel", b.machine.kernel},
		{"Go", runtime.Version()},
		{"write of 4 KiB and fsync", fmt.Sprintf("%.2f ms", milliseconds(b.machine.fsync))},
		{"GOGC", gogc},
		{"built from", b.programs.version},
	})
	if b.quick {
		d.text("**A quick look: one round, a tenth of the tasks.** Not for a record.")
	}
}
