package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticksPerSecond is USER_HZ, which is 100 wherever Go runs on Linux.
const ticksPerSecond = 100

// cpuSeconds is what a process has computed so far, for itself and in the kernel.
func cpuSeconds(pid int) (float64, error) {
	f, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	user, err := strconv.ParseFloat(f[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(f[12], 64)
	return (user + system) / ticksPerSecond, err
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
func children(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, path := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		// A process that has just ended has no parent.
		if f, err := statFields(child); err == nil && f[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found, nil
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
	busy := 0.0
	// user, nice, system; then idle and iowait, which are none; then irq, softirq and steal.
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		ticks, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, err
		}
		busy += ticks
	}
	return busy / ticksPerSecond, nil
}
