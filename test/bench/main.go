// Command bench compares Pawl with a peer and with its targets, in one run, and writes docs/performance.md. It starts real
// processes, built from this tree, and uses only what is visible from outside: their API, their flags, /proc and the
// journal's file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	parts  []string
	levels []int // numbers of callers at once
	rounds int
	tasks  int // in the large journal of the part growth
	each   time.Duration
	// patience is how long the run may wait for a quiet machine from now on.
	patience time.Duration
	quick    bool
	peer     bool
	bin      string
	dir      string
	out      string
}

// measurement is a part of the run, with its own heading in the document.
type measurement struct {
	name, title string
	run         func(*bench, context.Context, *document)
}

// measurements are the parts of a run, in their order.
var measurements = []measurement{
	{"suite", "The whole suite, beside Restate", (*bench).suite},
	{"lanes", "Eight lanes beside eight tasks", (*bench).lanes},
	{"network", "On a network: keys, budgets, TLS, tokens", (*bench).network},
	{"startup", "Start to serving", (*bench).startup},
	{"waiting", "Waiting tasks", (*bench).waiting},
	{"watch", "From a commit to its watcher", (*bench).watching},
	{"approve", "From an approval to the next step", (*bench).approving},
	{"pool", "The MCP pool beside mcp-go alone", (*bench).poolAlone},
	{"endpoints", "Through /mcp and /openai/v1", (*bench).endpoints},
	{"growth", "How cost grows", (*bench).growing},
	{"kill", "Killed with 100 tasks in flight", (*bench).killing},
}

func main() {
	if os.Getenv(toolVariable) != "" {
		if err := serveTool(); err != nil {
			fmt.Fprintln(os.Stderr, "bench tool:", err)
			os.Exit(1)
		}
		return
	}
	o, err := parseOptions()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseOptions() (options, error) {
	o := options{levels: []int{1, 32, 128}}
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	parts := flag.String("parts", strings.Join(names, ","), "what to measure, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds over all systems; medians are shown")
	flag.IntVar(&o.tasks, "tasks", 100_000, "how many ended tasks the large journal of the part growth has")
	flag.DurationVar(&o.each, "each", 3*time.Second, "how long each system is measured per round and level")
	flag.DurationVar(&o.patience, "patience", 150*time.Second, "total time to wait for other programs to be quiet")
	flag.BoolVar(&o.quick, "quick", false, "one short round with a tenth of the tasks, for a quick look")
	flag.BoolVar(&o.peer, "restate", true, "measure Restate too, if npm can install it")
	flag.StringVar(&o.bin, "bin", "", "folder of the built programs; empty: build them from this tree")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where to create the data folders; the journal is measured on this disk")
	flag.StringVar(&o.out, "out", "", "file to write, or - for standard output; empty: docs/performance.md")
	flag.Parse()
	o.parts = strings.Split(*parts, ",")
	for _, p := range o.parts {
		if !slices.Contains(names, p) {
			return o, fmt.Errorf("--parts: there is no part %q; there are %s", p, strings.Join(names, ", "))
		}
	}
	if o.quick {
		o.rounds, o.each, o.patience = 1, min(o.each, 2*time.Second), 0
	}
	if o.rounds < 1 || o.tasks < 1000 || o.each < 100*time.Millisecond || flag.NArg() > 0 {
		return o, fmt.Errorf("--rounds must be at least 1, --tasks at least 1000 and --each at least 100ms; arguments other than flags are not allowed")
	}
	return o, nil
}

// run measures, and writes the document.
func run(ctx context.Context, o options) error {
	work, err := os.MkdirTemp(o.dir, "pawl-bench-")
	if err != nil {
		return err
	}
	b := &bench{options: o, work: work, began: time.Now(), journals: map[int]string{}}
	var text string
	err = b.try(func() {
		b.build(ctx)
		text = b.measure(ctx)
	})
	if err = errors.Join(err, os.RemoveAll(work)); err != nil {
		return err
	}
	switch b.out {
	case "-":
		_, err := fmt.Print(text)
		return err
	case "":
		b.out = filepath.Join(b.root, "docs", "performance.md")
	}
	b.logf("writing %s", b.out)
	return os.WriteFile(b.out, []byte(text), 0o644) //nolint:gosec // a document of the tree
}
