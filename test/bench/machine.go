package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// fsyncTime returns the median time to append 4 KiB to a file and make them durable, in ms.
func fsyncTime(dir string) float64 {
	f := must(os.Create(filepath.Join(dir, "fsync")))
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	var took []time.Duration
	for range 200 {
		began := time.Now()
		must(f.Write(page))
		check(f.Sync())
		took = append(took, time.Since(began))
	}
	p50, _ := quantiles(took)
	return p50
}

// preface describes the method and the machine.
func (b *bench) preface(d *document) {
	d.WriteString("# Performance\n\n")
	d.text("Written by `make bench` on %s. Systems are measured in turns, in one run: %d round(s) of %v for each system and level. Figures are "+
		"medians of the %d rounds in which the rest of the machine did least. Only ratios carry over to another machine. "+
		"[What planning with a model costs](performance-planning.md) and [what each fast path saves](performance-fast-paths.md) are measured apart.",
		b.began.UTC().Format("2006-01-02 15:04 UTC"), b.rounds, b.each, quieterCount(b.rounds))
	gogc := "10 to 300, which our servers set themselves: 10 to 20 MB, or what is scanned, between two collections"
	if v := os.Getenv("GOGC"); v != "" {
		gogc = v + ", from the environment"
	}
	proc := must(procfs.NewDefaultFS())
	memory := must(proc.Meminfo()).MemTotalBytes
	kernel := must(os.ReadFile("/proc/sys/kernel/osrelease"))
	d.table([]string{"machine", ""}, [][]string{
		{"cores", fmt.Sprintf("%d (%s)", runtime.NumCPU(), must(proc.CPUInfo())[0].ModelName)},
		{"memory", fmt.Sprintf("%d MB", *memory>>20)},
		{"kernel", strings.TrimSpace(string(kernel))},
		{"Go", runtime.Version()},
		{"write of 4 KiB and fsync", fmt.Sprintf("%.2f ms", fsyncTime(b.work))},
		{"GOGC", gogc},
		{"built from", b.version},
	})
	if b.quick {
		d.text("**A quick look: one round, a tenth of the tasks.** Not for a record.")
	}
}

const (
	// quietShare is the share of the cores below which the machine counts as quiet while no measured system has work.
	quietShare = 0.15
	// quietLook is the time over which the load is measured.
	quietLook = 250 * time.Millisecond
)

// awaitQuiet waits until the machine is quiet, or the run's patience is used up.
func (b *bench) awaitQuiet(ctx context.Context) {
	for ; ; b.patience -= quietLook {
		before, began := machineSeconds(), time.Now()
		wait(ctx, quietLook)
		check(ctx.Err())
		busy := (machineSeconds() - before) / time.Since(began).Seconds() / float64(runtime.NumCPU())
		if busy < quietShare || b.patience <= 0 {
			return
		}
	}
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// cpuSeconds returns the CPU time of a process so far, in user and kernel mode.
func cpuSeconds(pid int) float64 {
	return must(must(procfs.NewProc(pid)).Stat()).CPUTime()
}

// anonymousMB returns the memory of a process that is not backed by a file, in MB.
func anonymousMB(pid int) float64 {
	return float64(must(must(procfs.NewProc(pid)).NewStatus()).RssAnon) / (1 << 20)
}

// children returns the ids of the child processes of a process.
func children(pid int) (found []int) {
	for _, p := range must(procfs.AllProcs()) {
		if stat, err := p.Stat(); err == nil && stat.PPID == pid { // an error means that the process has just ended
			found = append(found, p.PID)
		}
	}
	return found
}

// machineSeconds returns the CPU time of all processes and the kernel since the machine was started, and the time that its hypervisor stole.
func machineSeconds() float64 {
	t := must(must(procfs.NewDefaultFS()).Stat()).CPUTotal
	return t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
}
