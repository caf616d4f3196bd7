package conf

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

type limits struct {
	Steps   int           `default:"25"`
	Timeout time.Duration `default:"60s"`
}

type settings struct {
	HTTPAddr string `name:"http-addr" default:"127.0.0.1:7080" help:"Where HTTP listens."`
	GRPCAddr string `name:"grpc-addr" default:"127.0.0.1:7081"`
	Data     string `required:"" help:"The data folder."`
	Verbose  bool
	Tags     []string
	Labels   map[string]string
	Limits   limits `embed:"" prefix:"limits."`
}

// outcome is the output and exit code of a program.
type outcome struct {
	settings settings
	stdout   string
	stderr   string
	exit     int // -1: it did not exit
}

// run parses as Parse does, with the process's parts replaced.
func run(t *testing.T, args ...string) outcome {
	t.Helper()
	type exited int
	o := outcome{exit: -1}
	var stdout, stderr bytes.Buffer
	func() {
		defer func() {
			if code, ok := recover().(exited); ok {
				o.exit = int(code)
			}
		}()
		options := append(Options("pool", "Serves MCP."), kong.Writers(&stdout, &stderr), kong.Exit(func(code int) { panic(exited(code)) }))
		if err := parse(&o.settings, args, options); err != nil {
			t.Fatal(err)
		}
	}()
	o.stdout, o.stderr = stdout.String(), stderr.String()
	return o
}

func yamlFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conf.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	o := run(t, "--data", "/d")
	want := settings{HTTPAddr: "127.0.0.1:7080", GRPCAddr: "127.0.0.1:7081", Data: "/d", Limits: limits{25, time.Minute}}
	if diff := cmp.Diff(want, o.settings); diff != "" || o.exit != -1 {
		t.Errorf("exit %d, stderr %q (-want +got):\n%s", o.exit, o.stderr, diff)
	}
}

func TestFlagsBeatEnvironmentBeatsFile(t *testing.T) {
	t.Setenv("PAWL_GRPC_ADDR", "env:1")
	t.Setenv("PAWL_HTTP_ADDR", "env:2")
	t.Setenv("PAWL_LIMITS_STEPS", "7")
	path := yamlFile(t, "http-addr: file:1\ngrpc-addr: file:2\ndata: /file\nlimits: {steps: 3, timeout: 5s}\n")
	o := run(t, "--config", path, "--http-addr", "flag:1")
	want := settings{HTTPAddr: "flag:1", GRPCAddr: "env:1", Data: "/file", Limits: limits{7, 5 * time.Second}}
	if diff := cmp.Diff(want, o.settings); diff != "" || o.exit != -1 {
		t.Errorf("exit %d, stderr %q (-want +got):\n%s", o.exit, o.stderr, diff)
	}
}

func TestConfigFromTheEnvironment(t *testing.T) {
	t.Setenv("PAWL_CONFIG", yamlFile(t, "data: /file\n"))
	if o := run(t); o.settings.Data != "/file" {
		t.Errorf("settings %+v, stderr %q", o.settings, o.stderr)
	}
}

func TestNamesInTheFile(t *testing.T) {
	for name, content := range map[string]string{
		"as the flag": "http-addr: x\ndata: d\nlimits.steps: 4\n",
		"underscores": "http_addr: x\ndata: d\nlimits_steps: 4\n",
		"nested":      "http:\n  addr: x\ndata: d\nlimits:\n  steps: 4\n",
		"anchors":     "http: {addr: &a x}\ndata: d\nlimits: {steps: 4}\ngrpc_addr: *a\n",
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, "--config", yamlFile(t, content))
			if o.settings.HTTPAddr != "x" || o.settings.Limits.Steps != 4 || o.exit != -1 {
				t.Errorf("settings %+v, exit %d, stderr %q", o.settings, o.exit, o.stderr)
			}
		})
	}
}

func TestKindsOfValues(t *testing.T) {
	o := run(t, "--config", yamlFile(t, "data: 007\nverbose: true\ntags: [a, 'b,c', 1.10]\nlabels: {x: 1, y: no}\n"))
	want := settings{HTTPAddr: "127.0.0.1:7080", GRPCAddr: "127.0.0.1:7081", Data: "007", Verbose: true,
		Tags: []string{"a", "b,c", "1.10"}, Labels: map[string]string{"x": "1", "y": "no"}, Limits: limits{25, time.Minute}}
	if diff := cmp.Diff(want, o.settings); diff != "" || o.exit != -1 {
		t.Errorf("exit %d, stderr %q (-want +got):\n%s", o.exit, o.stderr, diff)
	}
	if o := run(t, "--config", yamlFile(t, "")+"", "--data", "d"); o.exit != -1 {
		t.Errorf("an empty file: %q", o.stderr)
	}
	if o := run(t, "--config", yamlFile(t, "tags:\ndata: d\n")); o.exit != -1 || o.settings.Tags != nil {
		t.Errorf("no value: %+v, %q", o.settings, o.stderr)
	}
}

// Issue 2, shown by 7: bad input is a clear error with the next step.
func TestBadFiles(t *testing.T) {
	cases := map[string]struct {
		content string
		want    []string
	}{
		"unknown":         {"data: d\nhtpt-addr: x\nextra: {a: 1}\n", []string{": htpt-addr (line 2), did you mean http-addr?, extra (line 3); pool --help lists the settings"}},
		"half a name":     {"data: d\nhttp: x\n", []string{"http (line 2)"}},
		"beyond a name":   {"data: d\nhttp-addr: {x: 1}\n", []string{"http-addr.x (line 2)"}},
		"a list":          {"data: d\nhttp-addr: [x]\n", []string{"http-addr"}},
		"twice":           {"data: d\nhttp-addr: x\nhttp_addr: y\n", []string{"line 3", "http_addr", "line 2"}},
		"config in it":    {"data: d\nconfig: x\n", []string{"config (line 2)"}},
		"not YAML":        {"data: [\n", []string{"line"}},
		"not a mapping":   {"- data\n", []string{"line 1", "name: value"}},
		"wrong type":      {"data: d\nlimits: {steps: many}\n", []string{"limits.steps", "many"}},
		"required absent": {"verbose: true\n", []string{"--data"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := run(t, "--config", yamlFile(t, c.content))
			if o.exit <= 0 {
				t.Fatalf("exit %d, settings %+v", o.exit, o.settings)
			}
			for _, want := range append(c.want, "pool: error:") {
				if !strings.Contains(o.stderr+o.stdout, want) {
					t.Errorf("the message lacks %q:\n%s%s", want, o.stdout, o.stderr)
				}
			}
		})
	}
	if o := run(t, "--config", filepath.Join(t.TempDir(), "nope.yaml")); o.exit <= 0 || !strings.Contains(o.stderr, "nope.yaml") {
		t.Errorf("a missing file: %d, %q", o.exit, o.stderr)
	}
}

func TestHelpAndVersion(t *testing.T) {
	if o := run(t, "--help"); o.exit != 0 || !strings.Contains(o.stdout, "Serves MCP.") ||
		!strings.Contains(o.stdout, "PAWL_HTTP_ADDR") || !strings.Contains(o.stdout, "--config") {
		t.Errorf("help: %d, %q", o.exit, o.stdout)
	}
	if o := run(t, "--version"); o.exit != 0 || o.stdout != "pool "+Version()+"\n" {
		t.Errorf("version: %d, %q", o.exit, o.stdout)
	}
	t.Setenv("PAWL_VERSION", "1.2") // images set such variables
	if o := run(t, "--data", "d"); o.exit != -1 {
		t.Errorf("PAWL_VERSION: %d, %q", o.exit, o.stderr)
	}
	if o := run(t, "--nope"); o.exit <= 0 || !strings.Contains(o.stderr, "--nope") {
		t.Errorf("an unknown flag: %d, %q", o.exit, o.stderr)
	}
}

func TestParseRefusesATargetThatIsNone(t *testing.T) {
	if err := Parse("x", "", settings{}, nil); err == nil {
		t.Error("a struct that is not a pointer was accepted")
	}
	var s settings
	if err := Parse("x", "", &s, []string{"--data", "d"}); err != nil || s.Data != "d" {
		t.Errorf("Parse = %v, %+v", err, s)
	}
}

func TestVersionOf(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":                   {Main: debug.Module{Version: "v1.2.3"}},
		"devel":                    {Main: debug.Module{Version: "(devel)"}},
		"devel+0123456789ab-dirty": {Settings: commit},
	} {
		if got := versionOf(info); got != want {
			t.Errorf("versionOf = %q, want %q", got, want)
		}
	}
}
