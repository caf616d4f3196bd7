package task_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tool = "files/write_file"

func approve(input string) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{
		WaitId: "wait-s1",
		Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{InputJson: input}},
	}
}

// granted approves what was shown, and later calls up to its risk.
func granted(level commonv1.RiskLevel) *executorv1.ResumeTaskRequest {
	req := approve("")
	req.GetApprove().Grant = &executorv1.Grant{MaxRisk: level}
	return req
}

func settle(answer *executorv1.OutcomeAnswer) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{WaitId: "wait-s1", Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: answer}}
}

func output(exact string) *executorv1.ResumeTaskRequest {
	return settle(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: exact}}})
}

func skip(reason string) *executorv1.ResumeTaskRequest {
	return settle(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: reason}}})
}

func reject(reason string) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{
		WaitId: "wait-s1",
		Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: reason}},
	}
}

func params(content, description string) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{
		WaitId: "wait-s1",
		Answer: &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: content, Description: description}},
	}
}

// A9: what is approved is exactly what was shown, or the person's edit of it.
func TestApproval(t *testing.T) {
	medium, high := commonv1.RiskLevel_RISK_LEVEL_MEDIUM, commonv1.RiskLevel_RISK_LEVEL_HIGH
	for _, tc := range []struct {
		name  string
		risk  commonv1.RiskLevel
		typed string
		want  *executorv1.ResumeTaskRequest
	}{
		{"approve", medium, "a\n", approve("")},
		{"approve after nonsense", medium, "\nyes\napprove\n", approve("")},
		{"high risk wants yes", high, "a\nyes\n", approve("")},
		{"high risk without yes", high, "a\ny\nd\n", nil},
		{"grant", medium, "g\n", granted(medium)},
		{"grant of high risk wants yes", high, "g\ny\ng\nyes\n", granted(high)},
		{"reject with a reason", medium, "r\nnot today\n", reject("not today")},
		{"reject without", medium, "reject\n\n", reject("")},
		{"detach", medium, "d\n", nil},
		{"the end of the input", medium, "", nil},
		{"the end in the middle", medium, "r\n", nil},
		{"edit in line", medium, "e\n{\"path\": \"b.txt\", \"n\": 9007199254740993}\na\n", approve(`{"path":"b.txt","n":9007199254740993}`)},
		{"edit to something wrong, then leave it", medium, "e\n[1]\na\n", approve("")},
		{"edit without a change", medium, "e\n\na\n", approve("")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader(tc.typed)), Out: &out, Now: now}}
			got, err := p.Ask(t.Context(), clitest.ApprovalWait("s1", tool, `{"path":"a.txt"}`, tc.risk))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s\n%s", diff, out.String())
			}
			clitest.Check(t, "approval "+tc.name, out.String())
		})
	}
}

func now() time.Time { return clitest.Epoch }

func TestEditor(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		edit        func(context.Context, string) (string, error)
		want        *executorv1.ResumeTaskRequest
	}{
		{"changed twice", "e\ne\na\n", func(_ context.Context, text string) (string, error) {
			return strings.Replace(text, "a.txt", "aa.txt", 1), nil
		}, approve(`{"path":"aaa.txt"}`)},
		{"a mistake is opened again", "e\na\n", func(_ context.Context, text string) (string, error) {
			if problem, ok := strings.CutPrefix(text, "# "); ok {
				return strings.Replace(problem[strings.Index(problem, "{"):], "b.txt", "b.txt\"", 1), nil
			}
			return `{"path":"b.txt}`, nil
		}, approve(`{"path":"b.txt"}`)},
		{"a mistake is given up", "e\nd\n", func(_ context.Context, text string) (string, error) {
			if strings.HasPrefix(text, "# ") {
				return text, nil
			}
			return "[]", nil
		}, nil},
		{"the editor fails", "e\nd\n", func(context.Context, string) (string, error) {
			return "", errors.New("vi: not found")
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader(tc.typed)), Out: &out, Edit: tc.edit, Now: now}}
			got, err := p.Ask(t.Context(), clitest.ApprovalWait("s1", tool, `{"path":"a.txt"}`, 0))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s\n%s", diff, out.String())
			}
		})
	}
}

const missing = `{"type":"object","properties":{
	"path":{"type":["string","null"],"description":"the file"},
	"depth":{"type":["integer","null"]},
	"mode":{"enum":["fast","slow",null]}}}`

// A10, A16: one question for each parameter; what is left out stays as it was.
func TestParams(t *testing.T) {
	for _, tc := range []struct {
		name, schema, typed string
		want                *executorv1.ResumeTaskRequest
	}{
		{"all", missing, "src\n2\nslow\n", params(`{"depth":2,"mode":"slow","path":"src"}`, "")},
		{"wrong types are asked again", missing, "\ntwo\n2\nmedium\nfast\n", params(`{"depth":2,"mode":"fast"}`, "")},
		{"none but words", missing, "\n\n\nthe folder of the tests\n", params("", "the folder of the tests")},
		{"nothing at all", missing, "\n\n\n\n", nil},
		{"the end of the input", missing, "src\n", nil},
		{"what is required", `{"type":"object","required":["to","path","cc"],"properties":{"to":{"type":"string"},"path":{"type":"string"},"cc":{"type":"string"}}}`,
			"\nann\n\n\n\n", params(`{"to":"ann"}`, "")},
		{"no schema", "", "in words\n", params("", "in words")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader(tc.typed)), Out: &out, Now: now}}
			wait := clitest.ParamsWait("s1", tool, "which file?", tc.schema)
			wait.InputJson, wait.Deadline = `{"path":""}`, timestamppb.New(clitest.Epoch.Add(10*time.Minute))
			got, err := p.Ask(t.Context(), wait)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s\n%s", diff, out.String())
			}
			clitest.Check(t, "params "+tc.name, out.String())
		})
	}
}

const asked = `{"type":"object","required":["city","days","kind","sure"],"properties":{"city":{"type":"string","description":"where to"},
	"days":{"type":"integer","minimum":1},"kind":{"type":"string","oneOf":[{"const":"sea","title":"By the sea"},{"const":"hills","title":"In the hills"}]},
	"sure":{"type":"boolean","default":true},"note":{"type":"string"},"most":{"type":"number"}}}`

func supply(action executorv1.InputAnswer_Action, content string) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{
		WaitId: "wait-s1", Answer: &executorv1.ResumeTaskRequest_Input{Input: &executorv1.InputAnswer{Action: action, ContentJson: content}},
	}
}

// A5: a question of a tool's server is answered field by field, declined, or answered at an address.
func TestInput(t *testing.T) {
	accept, decline := executorv1.InputAnswer_ACTION_ACCEPT, executorv1.InputAnswer_ACTION_DECLINE
	for _, tc := range []struct {
		name, schema, url, typed string
		want                     *executorv1.ResumeTaskRequest
	}{
		{"all", asked, "", "a\nBern\n3\nsea\nno\nwith a view\n1.5\n", supply(accept, `{"city":"Bern","days":3,"kind":"sea","most":1.5,"note":"with a view","sure":false}`)},
		{"what may be empty", asked, "", "x\na\nBern\n\ntwo\n2\ncave\nhills\n\n\n\n", supply(accept, `{"city":"Bern","days":2,"kind":"hills","sure":true}`)},
		{"what must not be empty", `{"type":"object","required":["city","note","with"],"properties":{"city":{"type":"string"},"note":{"type":"string"},
			"with":{"type":"array","items":{"enum":["a","b"]}}}}`, "", "a\n\n \nBern\n\"\"\n\n[]\n", supply(accept, `{"city":"Bern","note":"","with":[]}`)},
		{"declined", asked, "", "n\n", supply(decline, "")},
		{"detached", asked, "", "d\n", nil},
		{"the end of the input", asked, "", "a\nBern\n", nil},
		{"nothing to enter", `{"type":"object","properties":{}}`, "", "a\n", supply(accept, "{}")},
		{"an address", "", "https://example.com/\x1b[2Jsign-in", "a\ny\n", supply(accept, "")},
		{"an address declined", "", "https://example.com/sign-in", "n\n", supply(decline, "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader(tc.typed)), Out: &out, Now: now}}
			wait := clitest.InputWait("s1", tool, "s1", "where to?", tc.schema, tc.url)
			wait.Deadline = timestamppb.New(clitest.Epoch.Add(10 * time.Minute))
			got, err := p.Ask(t.Context(), wait)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s\n%s", diff, out.String())
			}
			clitest.Check(t, "input "+tc.name, out.String())
		})
	}
}

// A field is checked when it is entered, and asked for again; what must be there comes first; choices have titles.
func TestInputIsChecked(t *testing.T) {
	const schema = `{"type":"object","required":["mail","seats","with"],"properties":{
		"note":{"type":"string","maxLength":3},"mail":{"type":"string","format":"email"},"seats":{"type":"integer","minimum":1,"maximum":9},
		"with":{"type":"array","minItems":1,"items":{"anyOf":[{"const":"b","title":"A bike"},{"const":"d","title":"A dog"}]}},
		"class":{"type":"string","enum":["1","2"],"enumNames":["First","Second"]},"day":{"type":"string","format":"date"},
		"at":{"type":"string","format":"date-time"},"link":{"type":"string","format":"uri"},"name":{"type":"string","minLength":2}}}`
	typed := "a\nann\nann@example.com\n0\n10\n3\n\ncat\na bike, d\nlong\nabc\nthird\nSecond\nmonday\n2026-03-01\nnoon\n" +
		"2026-03-01T10:00:00Z\nx\nhttps://example.com/\nA\nAnn\n"
	want := `{"at":"2026-03-01T10:00:00Z","class":"2","day":"2026-03-01","link":"https://example.com/","mail":"ann@example.com","name":"Ann",` +
		`"note":"abc","seats":3,"with":["b","d"]}`
	var out bytes.Buffer
	p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader(typed + "a\n\n4\n\n\n\n\n\n\n\n")), Out: &out, Now: now}}
	for _, want := range []string{want, strings.Replace(want, `"seats":3`, `"seats":4`, 1)} { // refused: the rest is kept
		got, err := p.Ask(t.Context(), clitest.InputWait("s1", tool, "s1", "where to?", schema, ""))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(supply(executorv1.InputAnswer_ACTION_ACCEPT, want), got, protocmp.Transform()); diff != "" {
			t.Errorf("%s\n%s", diff, out.String())
		}
	}
	clitest.Check(t, "input checked", out.String())
}

// A person says what the outcome of a call was; to call again, the word yes is needed.
func TestOutcome(t *testing.T) {
	again := settle(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}})
	for _, tc := range []struct {
		name, typed string
		want        *executorv1.ResumeTaskRequest
	}{
		{"retry", "r\nyes\n", again},
		{"retry without yes", "retry\ny\nd\n", nil},
		{"output as text", "o\nwritten \"twice\"\n", output(`{"message":"written \"twice\""}`)},
		{"output as JSON", "o\n{\"message\": \"w\", \"n\": 9007199254740993}\n", output(`{"message":"w","n":9007199254740993}`)},
		{"output that is none", "o\n{\"message\"\no\n\nd\n", nil},
		{"skip", "s\nit is there\n", skip("it is there")},
		{"cancel", "x\nc\nenough\n", reject("enough")},
		{"the end of the input", "s\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader(tc.typed)), Out: &out, Now: now}}
			got, err := p.Ask(t.Context(), clitest.OutcomeWait("s1", tool, `{"path":"a.txt"}`, "the connection closed"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s\n%s", diff, out.String())
			}
			clitest.Check(t, "outcome "+tc.name, out.String())
		})
	}
}

func TestPaused(t *testing.T) {
	unpause := &executorv1.ResumeTaskRequest{WaitId: "wait-pause", Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}}
	for typed, want := range map[string]*executorv1.ResumeTaskRequest{
		"u\n": unpause, "a\nunpause\n": unpause, "c\n": nil, "d\n": nil, "": nil,
	} {
		var out bytes.Buffer
		p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader(typed)), Out: &out, Now: now}}
		got, err := p.Ask(t.Context(), clitest.PauseWait("lunch\x1b[2J"))
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || errors.Is(err, task.ErrCancel) != (typed == "c\n") {
			t.Errorf("%q: %v %s", typed, err, diff)
		}
		if !strings.Contains(out.String(), "the task is paused: lunch") || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q", out.String())
		}
	}
}

// What a tool says cannot command the terminal from within a question either.
func TestHostileQuestion(t *testing.T) {
	var out bytes.Buffer
	p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader("\n\nd\n")), Out: &out, Now: now}}
	wait := clitest.ApprovalWait("s1", "evil/\x1b[2J", "{\"a\":\"\u009b\u202e\"}", commonv1.RiskLevel_RISK_LEVEL_HIGH)
	if _, err := p.Ask(t.Context(), wait); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexAny(out.String(), "\x1b\u009b\u202e"); i >= 0 {
		t.Errorf("%q", out.String())
	}
}

func TestUnknownWait(t *testing.T) {
	p := task.Asker{Prompter: &ui.Prompter{Lines: ui.NewLines(strings.NewReader("")), Out: io.Discard, Now: now}}
	if _, err := p.Ask(t.Context(), &executorv1.Wait{Kind: 99}); err == nil {
		t.Error("a wait of an unknown kind was answered")
	}
}

// A read that was given up serves the next one: nothing that was typed is lost.
func TestLinesAfterAReadThatWasGivenUp(t *testing.T) {
	r, w := io.Pipe()
	lines := ui.NewLines(r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lines.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(w, "first\nlast")
		_ = w.Close()
	}()
	for _, want := range []string{"first", "last"} {
		if got, err := lines.Read(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if _, err := lines.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the last line: %v", err)
	}
}

func TestConfirm(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "n\n": false} {
		p := &ui.Prompter{Lines: ui.NewLines(strings.NewReader(typed)), Out: io.Discard}
		if got, err := p.Confirm(t.Context(), "sure?"); err != nil || got != want {
			t.Errorf("%q: %v, %v", typed, got, err)
		}
	}
}
