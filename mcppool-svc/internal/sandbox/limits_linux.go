package sandbox

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// watchEvery and watchSlowly bound the time between two looks at what the program and its children use.
	watchEvery  = 250 * time.Millisecond
	watchSlowly = 2 * time.Second
	// watchShare is how much longer than a look the time between two is within these bounds, for computers with very many processes.
	watchShare = 20
)

// The limits of a Command that sets none.
const (
	defaultProcesses = 8192
	defaultFileSize  = 16 << 30
)

// defaultMemory returns three quarters of the computer's memory.
func defaultMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) / 4 * 3
}

// setLimits sets the limits of the kernel for this process and those that it starts. A program that needs more memory than there is is killed
// before others. The limit of processes is for all of the user, so it is relative to those that run now; it does not bind the superuser.
func (c *Command) setLimits() error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // some containers do not allow it
	text, _ := os.ReadFile("/proc/loadavg")                         // "0.20 0.18 0.12 RUNNING/THREADS LAST"
	_, text, _ = bytes.Cut(text, []byte{'/'})
	count, _, _ := bytes.Cut(text, []byte{' '})
	threads, err := strconv.ParseUint(string(count), 10, 32)
	if err != nil {
		threads = math.MaxUint32 // not known here: no limit
	}
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_FSIZE: uint64(cmp.Or(c.MaxFileSize, defaultFileSize)),
		unix.RLIMIT_NPROC: threads + uint64(cmp.Or(c.MaxProcesses, defaultProcesses)),
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return err
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: min(limit, now.Max), Max: min(limit, now.Max)}); err != nil {
			return err
		}
	}
	return nil
}

// watch looks at the processes below this one until done is closed or they exceed the limits of memory or processes. Then it kills the
// program, and returns why.
func (c *Command) watch(pid int, done <-chan struct{}) (reason string) {
	memory, count := cmp.Or(c.MaxMemory, defaultMemory()), cmp.Or(c.MaxProcesses, defaultProcesses)
	for wait := watchEvery; ; {
		select {
		case <-done:
			return ""
		case <-time.After(wait):
		}
		start := time.Now()
		pages, threads := usage()
		wait = min(max(watchEvery, watchShare*time.Since(start)), watchSlowly)
		switch {
		case memory > 0 && pages*int64(os.Getpagesize()) > memory:
			reason = fmt.Sprintf("it used more than %d MiB of memory", memory>>20)
		case threads > count:
			reason = fmt.Sprintf("it had more than %d processes and threads", count)
		default:
			continue
		}
		_ = unix.Kill(-pid, unix.SIGKILL)
		return reason
	}
}

// usage returns how many pages of memory and threads all processes below this one have.
func usage() (pages int64, threads int) {
	all, ours := processes(), map[int]bool{os.Getpid(): true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !ours[p.pid] && ours[p.parent] {
				ours[p.pid], grown = true, true
				pages, threads = pages+p.pages, threads+p.threads
			}
		}
	}
	return pages, threads
}

// proc is a process, as /proc/PID/stat describes it.
type proc struct {
	pid, parent, threads int
	pages                int64 // in memory
}

func processes() (all []proc) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		// "PID (NAME) STATE PPID …", where NAME may hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 22 {
			continue // it has ended
		}
		p := proc{}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		p.parent, _ = strconv.Atoi(fields[1])
		p.threads, _ = strconv.Atoi(fields[17])
		p.pages, _ = strconv.ParseInt(fields[21], 10, 64)
		all = append(all, p)
	}
	return all
}
