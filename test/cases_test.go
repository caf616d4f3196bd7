package test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// caseTimeout bounds one case.
const caseTimeout = time.Minute

// TestCases runs every file of cases/ against every kind of installation, over both protocols.
func TestCases(t *testing.T) {
	targets := map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"pawl-up":        func(t testing.TB, o rig.Options) *rig.Target { return rig.Binary(t, binaries, o) },
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	}
	files, err := filepath.Glob("cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for name, start := range targets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := start(t, rig.Options{Workspace: workspace(t)})
			clients := map[string]rig.Client{"grpc": rig.NewGRPC(target.Executor), "rest": rig.REST{Base: target.HTTP}}
			for protocol, client := range clients {
				for _, file := range files {
					t.Run(protocol+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
						runCase(t, client, protocol == "rest", file)
					})
				}
			}
		})
	}
}

func runCase(t *testing.T, client rig.Client, rest bool, file string) {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	dir := t.TempDir()
	p := &play{t: t, client: client, rest: rest, effects: filepath.Join(dir, "effects.txt")}
	c := readCase(t, file, dir)
	if c.GetAgent() != nil {
		c.GetTask().AgentId = p.agent(ctx, c.GetAgent())
	}
	task, err := client.Create(ctx, c.GetTask())
	if r := c.GetRefused(); r != nil {
		checkRefused(t, r, rest, err)
		return
	}
	if err != nil {
		t.Fatalf("creating the task: %v", err)
	}
	events := p.follow(ctx, task.GetId(), 0, c.GetAnswers(), c.GetMeanwhile())
	p.check(ctx, task.GetId(), events, c.GetExpect())
	if c.GetExport() {
		p.export(ctx, task.GetId(), events)
	}
	fork := ""
	if c.GetFork() != nil {
		fork = p.fork(ctx, task.GetId(), events, c.GetFork())
	}
	if c.GetDelete() {
		p.delete(ctx, task.GetId(), fork)
	}
}

func readCase(t *testing.T, file, dir string) *testcasev1.Case {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(string(raw), "{{dir}}", dir)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	c := &testcasev1.Case{}
	if err := protojson.Unmarshal(asJSON, c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(c.GetShows()) == 0 || c.GetAbout() == "" {
		t.Fatalf("%s: say what it is about and which acceptance ids it shows", file)
	}
	return c
}
