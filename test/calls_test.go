package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"sigs.k8s.io/yaml"

	"pawl.dev/services/identity"

	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// TestCallCases runs every file of cases/webhooks/ in one process and in four, over both protocols.
func TestCallCases(t *testing.T) {
	files, err := filepath.Glob("cases/webhooks/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); err == nil {
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(receiver.Close)
	for name, start := range map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, key := keys(t)
			target := start(t, rig.Options{
				Workspace: workspace(t), Keys: path, Key: key("operator", identity.RoleOperator), ServiceKey: key("executor", identity.RoleService),
				WebhookAddresses: loopback,
			})
			for _, protocol := range []string{"grpc", "rest"} {
				for _, file := range files {
					name := strings.TrimSuffix(filepath.Base(file), ".yaml")
					t.Run(protocol+"/"+name, func(t *testing.T) {
						c := &callCase{t: t, rest: protocol == "rest", people: map[string]rig.Caller{}, saved: map[string]string{"receiver": receiver.URL}}
						c.caller = func(person string) rig.Caller {
							key := key(strings.Join([]string{person, protocol, name}, "-"), identity.RoleUser)
							if c.rest {
								return rig.REST{Base: target.HTTP, Key: key}
							}
							return rig.CallGRPC{Conn: rig.Dial(t, target.Executor.Target(), key)}
						}
						c.run(file)
					})
				}
			}
		})
	}
}

// callCase runs one case over one protocol.
type callCase struct {
	t      *testing.T
	rest   bool
	caller func(person string) rig.Caller
	people map[string]rig.Caller
	saved  map[string]string
}

func (c *callCase) run(file string) {
	ctx, cancel := context.WithTimeout(c.t.Context(), caseTimeout)
	defer cancel()
	raw, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(raw)
	all := &testcasev1.Calls{}
	if err == nil {
		err = protojson.Unmarshal(asJSON, all)
	}
	if err != nil || all.GetAbout() == "" {
		c.t.Fatalf("%s: %v; say what it is about", file, err)
	}
	for i, call := range all.GetCalls() {
		for range max(1, call.GetTimes()) {
			problems, err := c.call(ctx, call)
			for ; call.GetUntil() && len(problems) > 0 && ctx.Err() == nil; problems, err = c.call(ctx, call) {
				<-time.After(10 * time.Millisecond)
			}
			if r := call.GetRefused(); r != nil {
				checkRefused(c.t, r, c.rest, err)
			} else if err != nil || len(problems) > 0 {
				c.t.Fatalf("call %d, %s: %v\n%s", i+1, call.GetRpc(), err, strings.Join(problems, "\n"))
			}
		}
	}
}

// call makes a call, saves what is to be saved, and returns where the response differs.
func (c *callCase) call(ctx context.Context, call *testcasev1.Call) (problems []string, err error) {
	c.t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(call.GetRpc(), "/", ".")))
	if err != nil {
		return nil, err
	}
	person := call.GetBy()
	if person == "" {
		person = "ann"
	}
	if c.people[person] == nil {
		c.people[person] = c.caller(person)
	}
	raw, err := c.people[person].Call(ctx, d.(protoreflect.MethodDescriptor), c.text(call.GetRequest()))
	if err != nil {
		return nil, err
	}
	var want, got any
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(c.text(call.GetResponse())), &want); err != nil {
		return nil, err
	}
	if problems = unlike("", want, got); len(problems) > 0 {
		return problems, nil
	}
	for name, path := range call.GetSaves() {
		value := got
		for _, field := range strings.Split(path, ".") {
			switch v := value.(type) {
			case map[string]any:
				value = v[field]
			case []any:
				i, err := strconv.Atoi(field)
				if err != nil || i >= len(v) {
					return nil, fmt.Errorf("the response has no %s: %s", path, raw)
				}
				value = v[i]
			}
		}
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("the response has no text %s: %s", path, raw)
		}
		c.saved[name] = text
	}
	return nil, nil
}

// text returns a message as JSON, with the saved values.
func (c *callCase) text(m interface{ MarshalJSON() ([]byte, error) }) string {
	c.t.Helper()
	raw, err := m.MarshalJSON()
	if err != nil {
		c.t.Fatal(err)
	}
	return regexp.MustCompile(`\{\{\w+\}\}`).ReplaceAllStringFunc(string(raw), func(name string) string {
		value, ok := c.saved[strings.Trim(name, "{}")]
		if !ok {
			c.t.Fatalf("nothing is saved as %s", name)
		}
		return value
	})
}

// unlike compares JSON values: the fields of want, all items of its lists, and texts as sameText does.
func unlike(where string, want, got any) (all []string) {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok && len(want) > 0 {
			return []string{fmt.Sprintf("%s is %v", where, got)}
		}
		for name, w := range want {
			all = append(all, unlike(where+"."+name, w, fields[name])...)
		}
		return all
	case []any:
		items, _ := got.([]any)
		if len(items) != len(want) {
			return []string{fmt.Sprintf("%s has %d items, want %d: %v", where, len(items), len(want), got)}
		}
		for i, w := range want {
			all = append(all, unlike(fmt.Sprintf("%s[%d]", where, i), w, items[i])...)
		}
		return all
	case string:
		if text, ok := got.(string); !ok && got != nil || !sameText(want, text) {
			all = append(all, fmt.Sprintf("%s is %v, want %q", where, got, want))
		}
	default:
		if want != got {
			all = append(all, fmt.Sprintf("%s is %v, want %v", where, got, want))
		}
	}
	return all
}
