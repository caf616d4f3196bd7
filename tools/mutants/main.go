// Command mutants changes one place of a package at a time and lists the changes that no test notices.
//
// Each mutant is compiled with go's -overlay, so that the tree stays as it is, and run against the package's own tests, then against the wider tests that
// packages.txt names. A mutant is killed if a test fails or does not end. Those that do not compile are replaced by others.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	perPackage = flag.Int("n", 60, "mutants per package")
	seed       = flag.Uint64("seed", 1, "chooses the mutants")
	list       = flag.String("packages", "tools/mutants/packages.txt", "the packages and their wider tests")
	only       = flag.String("only", "", "only packages whose paths contain this text")
	since      = flag.String("changed", "", "only packages whose Go files differ from this commit")
	limit      = flag.Duration("timeout", 2*time.Minute, "time for one run of tests; a mutant that takes longer is killed")
)

// target is a package and the arguments of go test for its own tests and the wider ones.
type target struct {
	dir   string
	tests [][]string
}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run() error {
	targets, err := readTargets()
	if err != nil {
		return err
	}
	begin := time.Now()
	fmt.Printf("| package | mutants | killed by its tests | by wider tests | survived | killed |\n|---|--:|--:|--:|--:|--:|\n")
	var survivors []string
	var sum [3]int
	for _, t := range targets {
		killed, survived, err := t.judge()
		if err != nil {
			return err
		}
		n := [3]int{killed[0], killed[1], len(survived)}
		row(t.dir, n)
		sum = [3]int{sum[0] + n[0], sum[1] + n[1], sum[2] + n[2]}
		survivors = append(survivors, survived...)
	}
	row("all", sum)
	fmt.Printf("\nSeed %d, %s. Survived:\n\n", *seed, time.Since(begin).Round(time.Second))
	for _, s := range survivors {
		fmt.Println("- " + s)
	}
	return nil
}

func row(name string, n [3]int) {
	all := n[0] + n[1] + n[2]
	fmt.Printf("| %s | %d | %d | %d | %d | %d %% |\n", name, all, n[0], n[1], n[2], 100*(n[0]+n[1])/max(all, 1))
}

// readTargets reads the list of packages. A line has a folder and, after it, arguments of go test for wider tests, separated by semicolons.
func readTargets() (targets []target, err error) {
	data, err := os.ReadFile(*list)
	if err != nil {
		return nil, err
	}
	var changed []string
	if *since != "" {
		out, err := exec.Command("git", "diff", "--name-only", *since, "--", "*.go").Output()
		if err != nil {
			return nil, fmt.Errorf("git diff %s: %w", *since, err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			changed = append(changed, filepath.Dir(name))
		}
	}
	for line := range strings.Lines(string(data)) {
		dir, wider, _ := strings.Cut(strings.TrimSpace(line), " ")
		if dir == "" || dir[0] == '#' || !strings.Contains(dir, *only) || *since != "" && !slices.Contains(changed, dir) {
			continue
		}
		t := target{dir, [][]string{{"./" + dir}}}
		for args := range strings.SplitSeq(wider, ";") {
			if fields := strings.Fields(args); len(fields) > 0 {
				t.tests = append(t.tests, fields)
			}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// judge runs mutants of the package, until as many as wanted have compiled. It returns how many its own tests and the wider ones killed.
func (t target) judge() (killed [2]int, survived []string, err error) {
	for _, args := range t.tests { // they must pass without a change, or every mutant would count as killed
		if out, err := test(args, ""); err != nil {
			return killed, nil, fmt.Errorf("go test %s fails without a change: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	all, err := mutantsOf(t.dir)
	if err != nil {
		return killed, nil, err
	}
	h := fnv.New64()
	h.Write([]byte(t.dir))
	rand.New(rand.NewPCG(*seed, h.Sum64())).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var mu sync.Mutex
	var wg sync.WaitGroup
	judged, next := 0, 0
	for range runtime.NumCPU() {
		wg.Go(func() {
			dir, failure := os.MkdirTemp("", "mutant-")
			defer os.RemoveAll(dir)
			mu.Lock()
			defer mu.Unlock()
			for failure == nil && next < len(all) && judged < *perPackage {
				m := all[next]
				next++
				judged++
				mu.Unlock()
				var by int
				by, failure = t.killer(m, dir)
				mu.Lock()
				switch {
				case by == unjudged:
					judged--
				case by == len(t.tests):
					survived = append(survived, m.String())
				default:
					killed[min(by, 1)]++
				}
			}
			err = errors.Join(err, failure)
		})
	}
	wg.Wait()
	slices.Sort(survived)
	return killed, survived, err
}

const unjudged = -1 // the killer of a mutant that does not compile

// killer returns the index of the tests that kill a mutant, or their number if none does. It writes files to dir.
func (t target) killer(m mutant, dir string) (int, error) {
	original, err1 := filepath.Abs(m.file)
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	doc, err2 := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	source := slices.Concat(m.source[:m.start], []byte(m.text), m.source[m.end:])
	if err := errors.Join(err1, err2, os.WriteFile(changed, source, 0o600), os.WriteFile(overlay, doc, 0o600)); err != nil {
		return unjudged, err
	}
	if exec.Command("go", "build", "-overlay", overlay, "./"+t.dir).Run() != nil {
		return unjudged, nil
	}
	for i, args := range t.tests {
		if _, err := test(args, overlay); err != nil {
			return i, nil
		}
	}
	return len(t.tests), nil
}

func test(args []string, overlay string) ([]byte, error) {
	args = slices.Concat([]string{"test", "-vet=off", "-failfast", "-timeout", limit.String(), "-overlay=" + overlay}, args)
	return exec.Command("go", args...).CombinedOutput()
}
