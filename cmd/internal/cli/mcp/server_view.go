package mcp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// checkup shows the checks of a server, a line for each and one for what to do, wrapped at columns (0: not wrapped).
func checkup(st ui.Style, columns int, report *mcppoolv1.TestMcpServerResponse) string {
	var b strings.Builder
	width := 0
	for _, c := range report.GetChecks() {
		width = max(width, ui.Width(c.GetName()))
	}
	for _, c := range report.GetChecks() {
		if c.GetStatus() == mcppoolv1.ServerCheck_STATUS_SKIPPED {
			fmt.Fprintf(&b, "%s\n", st.Dim("· "+ui.Pad(ui.Line(c.GetName()), width)+"  not tried"))
			continue
		}
		fmt.Fprintf(&b, "%s %s  %s\n", checkMark(st, c.GetStatus()), ui.Pad(ui.Line(c.GetName()), width), ui.Wrap(ui.Failure(c.GetMessage())+checkTime(c), columns, width+4, width+4))
		if c.GetAdvice() != "" {
			fmt.Fprintf(&b, "  %s  %s %s\n", ui.Pad("", width), st.Bold("→"), ui.Wrap(c.GetAdvice(), columns, width+6, width+6))
		}
	}
	return b.String()
}

// checkTime is how long a check took, where that is worth a word.
func checkTime(c *mcppoolv1.ServerCheck) string {
	const worth = 100 * time.Millisecond
	if d := c.GetDuration().AsDuration(); d >= worth && !strings.Contains(c.GetMessage(), "\n") {
		return ", " + ui.Duration(d)
	}
	return ""
}

func checkMark(st ui.Style, s mcppoolv1.ServerCheck_Status) string {
	switch s {
	case mcppoolv1.ServerCheck_STATUS_OK:
		return st.Green("✓")
	case mcppoolv1.ServerCheck_STATUS_WARNING:
		return st.Yellow("!")
	}
	return st.Red("✗")
}

// serverLog is what a server wrote.
func serverLog(st ui.Style, log *mcppoolv1.GetMcpServerLogResponse) string {
	var b strings.Builder
	if log.GetTruncated() {
		fmt.Fprintf(&b, "%s\n", st.Dim("… earlier output was dropped"))
	}
	if text := log.GetStderr(); text != "" {
		b.WriteString(strings.TrimRight(ui.Text(text), "\n") + "\n")
	}
	if log.GetLastError() != "" {
		fmt.Fprintf(&b, "%s %s\n", st.Red("✗"), ui.Wrap(ui.Failure(log.GetLastError()), 0, 2, 2))
	}
	return b.String()
}

// serverText shows one server as a whole, as it is now.
func serverText(st ui.Style, s *mcppoolv1.McpServer, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", st.Bold(ui.Line(s.GetId())))
	row := func(name, value string) { b.WriteString(st.Field(name, 11, value)) }
	row("name", s.GetDisplayName())
	row("what", s.GetDescription())
	row("reached by", transportText(s))
	row("folder", s.GetStdio().GetCwd())
	row("environment", names(s.GetStdio().GetEnv()))
	row("headers", names(s.GetHttp().GetHeaders()))
	row("owner", owner(s))
	row("active", serverActivity(s))
	row("connection", connection(s, now))
	row("login", loginText(s))
	row("server", s.GetServerInfo())
	row("offers", strings.Join(s.GetCapabilities(), ", "))
	row("trusted", map[bool]string{true: "yes, what it says of its tools is believed"}[s.GetTrusted()])
	row("pinning", ui.EnumName(s.GetPinning()))
	row("isolation", isolationText(s.GetIsolation()))
	row("limits", limits(s))
	row("sampling", samplingText(s))
	row("roots", strings.Join(s.GetRoots(), ", "))
	b.WriteString(policies(st, s))
	if s.GetLastError() != "" {
		fmt.Fprintf(&b, "  %s %s\n", st.Red("✗"), ui.Wrap(ui.Failure(s.GetLastError()), 0, 4, 4))
	}
	return b.String()
}

// connection is its state and since when.
func connection(s *mcppoolv1.McpServer, now time.Time) string {
	text := ui.EnumName(s.GetState())
	if age := ui.Age(s.GetStateTime().AsTime(), now); text != "" && age != "" {
		text += " for " + age
	}
	return text
}

func names(values map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(values)), ", ")
}

func owner(s *mcppoolv1.McpServer) string {
	switch {
	case s.GetFromConfig() && s.GetBuiltin() != nil:
		return "everybody; it is built in"
	case s.GetFromConfig():
		return "a configuration file"
	case s.GetOwnerSub() == "":
		return "everybody"
	}
	return s.GetOwnerSub()
}

func serverActivity(s *mcppoolv1.McpServer) string {
	switch {
	case s.GetDisabled():
		return "no, it is disabled"
	case !s.GetActive():
		return "no (pawl mcp activate " + s.GetId() + ")"
	case s.GetOnlyWhenNamed():
		return "yes, for tasks that name it"
	}
	return "yes"
}

func loginText(s *mcppoolv1.McpServer) string {
	return map[mcppoolv1.LoginState]string{
		mcppoolv1.LoginState_LOGIN_STATE_REQUIRED: "needed (pawl mcp login " + s.GetId() + ")", mcppoolv1.LoginState_LOGIN_STATE_ACTIVE: "done",
	}[s.GetLogin()]
}

func isolationText(i mcppoolv1.Isolation) string {
	return map[mcppoolv1.Isolation]string{
		mcppoolv1.Isolation_ISOLATION_TASK: "a connection for each task", mcppoolv1.Isolation_ISOLATION_SHARED: "one connection for all users",
	}[i]
}

// samplingText says which models a server may have asked, and how often.
func samplingText(s *mcppoolv1.McpServer) string {
	p := s.GetSampling()
	if p == nil {
		return ""
	}
	const tokens, requests = 1024, 10 // the pool's defaults
	model := p.GetModel()
	if model == "" {
		model = "the model that it hints at, or the default"
	}
	return fmt.Sprintf("may have %s asked: %d times a call, %d tokens each", model, cmp.Or(p.GetMaxRequests(), requests), cmp.Or(p.GetMaxTokens(), tokens))
}

func limits(s *mcppoolv1.McpServer) string {
	var all []string
	lasts := func(what string, d *durationpb.Duration) {
		if d != nil {
			all = append(all, what+" "+ui.Duration(d.AsDuration()))
		}
	}
	lasts("a call", s.GetCallTimeout())
	lasts("a start", s.GetStartTimeout())
	if n := s.GetMaxConnections(); n > 0 {
		all = append(all, fmt.Sprintf("%d connections", n))
	}
	lasts("results of reading tools are kept for", s.GetCacheTtl())
	return strings.Join(all, ", ")
}

// policies is what the operator says of tools, and who may call them.
func policies(st ui.Style, s *mcppoolv1.McpServer) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.GetToolPolicies())) {
		p := s.GetToolPolicies()[name]
		text := ui.EffectName(p.GetEffect())
		if p.GetIdempotent() {
			text += ", may be repeated"
		}
		if p.GetRiskFloor() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
			text += ", risk " + ui.EnumName(p.GetRiskFloor()) + " at least"
		}
		fmt.Fprintf(&b, "  %s %s: %s\n", st.Dim(ui.Pad("tool", 11)), ui.Line(name), text)
	}
	for _, r := range s.GetPermissions() {
		fmt.Fprintf(&b, "  %s %s\n", st.Dim(ui.Pad(ui.EnumName(r.GetDecision()), 11)), ui.Line(ruleText(r)))
	}
	return b.String()
}

func ruleText(r *mcppoolv1.PermissionRule) string {
	var effects []string
	for _, e := range r.GetEffects() {
		effects = append(effects, ui.EffectName(e))
	}
	part := func(what string, list []string) string {
		if len(list) == 0 {
			return "any " + what
		}
		return what + " " + strings.Join(list, ", ")
	}
	return part("user", r.GetUsers()) + "; " + part("tool", r.GetTools()) + "; " + part("effect", effects)
}
