package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bench is one run of this program.
type bench struct {
	options
	root     string // the folder of go.work
	work     string // the run's temporary folder
	programs string // the folder of the built binaries
	version  string // the version of the binaries
	began    time.Time
	started  int            // the number of processes started so far
	cleanups []func() error // each stops something; run in reverse order
	journals map[int]string // data folders with so many ended tasks
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// scaled returns n, or a tenth of it for a quick look.
func (b *bench) scaled(n int) int {
	if b.quick {
		return n / 10
	}
	return n
}

// failure is an error that ends a measurement.
type failure struct{ error }

// check ends the measurement if err is not nil: it panics, and try recovers. Only the measurement's own goroutine may call it.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is check for a call that also returns a value.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// try runs a part of a measurement. If the part fails, try stops what the part started and returns the error.
func (b *bench) try(part func()) (err error) {
	before := len(b.cleanups)
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case failure:
			err = errors.Join(failed.error, b.end(before))
		default:
			panic(failed)
		}
	}()
	part()
	return nil
}

// scope runs a part of a measurement, and then stops what the part started.
func (b *bench) scope(part func()) {
	before := len(b.cleanups)
	part()
	check(b.end(before))
}

// end runs the cleanups except the first keep ones, in reverse order.
func (b *bench) end(keep int) (err error) {
	for len(b.cleanups) > keep {
		last := len(b.cleanups) - 1
		cleanup := b.cleanups[last]
		b.cleanups = b.cleanups[:last]
		err = errors.Join(err, cleanup())
	}
	return err
}

// atEnd registers a function that is called at the end of the innermost scope, or when a try around it fails.
func (b *bench) atEnd(end func() error) { b.cleanups = append(b.cleanups, end) }

// build builds the programs, unless --bin names a folder with them, and sets root, programs and version.
func (b *bench) build(ctx context.Context) {
	file := strings.TrimSpace(string(must(exec.CommandContext(ctx, "go", "env", "GOWORK").Output())))
	if file == "" || file == "off" {
		check(errors.New("run this within the workspace: go.work was not found"))
	}
	b.root, b.programs = filepath.Dir(file), b.bin
	if b.bin == "" {
		b.programs = filepath.Join(b.work, "bin")
		b.logf("building")
		b.command(ctx, b.root, "go", "build", "-o", b.programs+"/", "./cmd/pawl", "./executor-svc", "./mcppool-svc", "./planner-svc", "./gateway", "./test/bench/inprocess")
	}
	b.version = strings.TrimSpace(strings.TrimPrefix(b.command(ctx, b.root, b.program("executor-svc"), "--version"), "executor-svc"))
}

func (b *bench) program(name string) string { return filepath.Join(b.programs, name) }

// command runs a program to its end and returns its output.
func (b *bench) command(ctx context.Context, dir, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		check(fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, tail(string(out))))
	}
	return string(out)
}

// tail returns the end of a long output.
func tail(s string) string {
	const maxTail = 2000
	if len(s) > maxTail {
		s = "…" + s[len(s)-maxTail:]
	}
	return strings.TrimSpace(s)
}

// measure runs the requested parts and returns the document. If a part fails, the document shows its error, and the other parts still run.
func (b *bench) measure(ctx context.Context) string {
	doc := &document{}
	b.preface(doc)
	for _, m := range measurements {
		if !slices.Contains(b.parts, m.name) {
			continue
		}
		b.logf("%s", m.title)
		b.awaitQuiet(ctx)
		doc.heading(m.title)
		err := b.try(func() { b.scope(func() { m.run(b, ctx, doc) }) })
		check(ctx.Err())
		if err != nil {
			b.logf("%s: %v", m.title, err)
			doc.text("Not measured: %s", firstLine(err))
		}
	}
	doc.text("The run took %v.", time.Since(b.began).Round(time.Second))
	// Messages may name folders of this machine.
	return strings.NewReplacer(b.work, "…", b.root, ".").Replace(doc.String())
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
