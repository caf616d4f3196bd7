package mcptest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// taskDefinitions are the definitions of tools that run as tasks, and of finish, which ends all tasks.
var taskDefinitions = []string{
	`{"name":"job","description":"Takes until finish.","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
	`{"name":"askingjob","description":"Asks, then ends.","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
	`{"name":"samplingjob","description":"Has a model asked, then ends.","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
	`{"name":"failingjob","description":"Fails.","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
	`{"name":"maybejob","description":"Says how it was called.","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
	`{"name":"finish","description":"Ends all jobs.","inputSchema":{"type":"object"}}`,
	`{"name":"lose","description":"Forgets all jobs.","inputSchema":{"type":"object"}}`,
}

// jobs are the functions of these tools.
var jobs = map[string]func(*server, request){
	"job": (*server).start, "askingjob": (*server).start, "samplingjob": (*server).start, "failingjob": (*server).start, "finish": (*server).finish,
	"maybejob": func(s *server, r request) {
		if s.mode != Modern && !r.task {
			s.text(r.message, "maybejob at once")
			return
		}
		s.start(r)
	},
	"lose": func(s *server, r request) {
		s.mu.Lock()
		clear(s.jobs)
		s.mu.Unlock()
		s.text(r.message, "lost")
	},
}

// job is a task.
type job struct {
	id, tool string
	over     chan struct{}
	r        request

	mu     sync.Mutex
	status string // guarded by mu
	answer string // guarded by mu; to its question
	begun  bool   // guarded by mu; it has asked
}

func (j *job) end(status string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.status == "working" || j.status == "input_required" {
		j.status = status
		close(j.over)
	}
}

func (j *job) state() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

// start begins a task.
func (s *server) start(r request) {
	if s.mode != Modern && !r.task {
		s.fail(r.message, -32601, "the tool is done as a task only")
		return
	}
	s.mu.Lock()
	j := &job{id: fmt.Sprintf("job-%d", len(s.jobs)+1), tool: r.name, status: "working", over: make(chan struct{}), r: r}
	s.jobs[j.id] = j
	s.mu.Unlock()
	switch r.name {
	case "askingjob", "samplingjob":
		j.status = "input_required"
	case "failingjob":
		j.end("failed")
	case "maybejob":
		j.end("completed")
	}
	if s.mode == Modern {
		s.reply(r.message, `{"resultType":"task",`+s.describe(j)[1:])
		return
	}
	s.reply(r.message, `{"task":`+s.describe(j)+`}`)
}

func (s *server) describe(j *job) string {
	ttl, poll := "ttl", "pollInterval"
	if s.mode == Modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z",%q:60000,%q:50}`,
		j.id, j.state(), ttl, poll)
}

// outcome returns the result of a task.
func (j *job) outcome() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text, err := json.Marshal(j.tool + " done " + j.answer)
	if err != nil {
		panic(err)
	}
	return `{"content":[{"type":"text","text":` + string(text) + `}]}`
}

// tasks answers requests about tasks; it returns false for others.
func (s *server) tasks(m message) bool {
	if !strings.HasPrefix(m.Method, "tasks/") {
		return false
	}
	var p struct {
		TaskID         string                     `json:"taskId"`
		InputResponses map[string]json.RawMessage `json:"inputResponses"`
	}
	_ = json.Unmarshal(m.Params, &p)
	s.mu.Lock()
	j := s.jobs[p.TaskID]
	s.mu.Unlock()
	if j == nil {
		s.fail(m, -32602, "Failed to retrieve task: Task not found")
		return true
	}
	switch m.Method {
	case "tasks/get":
		s.reply(m, s.detailed(j))
	case "tasks/result":
		s.work.Go(func() { s.result(m, j) })
	case "tasks/update":
		if answer := p.InputResponses["name"]; answer != nil {
			j.mu.Lock()
			j.answer = string(answer)
			j.mu.Unlock()
			j.end("completed")
		}
		s.reply(m, `{"resultType":"complete"}`)
	case "tasks/cancel":
		j.end("cancelled")
		s.reply(m, s.describe(j))
	default:
		return false
	}
	return true
}

// detailed returns a task with its question or result, as tasks/get does since 2026-07-28.
func (s *server) detailed(j *job) string {
	text := s.describe(j)
	if s.mode != Modern {
		return text
	}
	more := `{"resultType":"complete",`
	switch j.state() {
	case "input_required":
		wanted := elicitation("Job name?")
		if j.tool == "samplingjob" {
			wanted = `{"method":"sampling/createMessage","params":` + j.r.sampling() + `}`
		}
		more += `"inputRequests":{"name":` + wanted + `},`
	case "completed":
		more += `"result":` + j.outcome() + `,`
	case "failed":
		more += `"error":{"code":-32603,"message":"the job broke"},`
	}
	return more + text[1:]
}

// result waits until a task ends, and asks the task's question meanwhile, as up to 2025-11-25.
func (s *server) result(m message, j *job) {
	j.mu.Lock()
	ask := (j.tool == "askingjob" || j.tool == "samplingjob") && !j.begun
	j.begun = true
	j.mu.Unlock()
	if ask {
		method, params := "elicitation/create", form("Job name?", NameSchema)
		if j.tool == "samplingjob" {
			method, params = "sampling/createMessage", j.r.sampling()
		}
		_, ch := s.request(request{}, method, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+j.id+`"}},`+params[1:])
		answer := resultOrError(<-ch)
		j.mu.Lock()
		j.answer = answer
		j.mu.Unlock()
		j.end("completed")
	}
	<-j.over
	switch j.state() {
	case "failed":
		s.fail(m, -32603, "the job broke")
	case "cancelled":
		s.fail(m, -32602, "the job was cancelled")
	default:
		s.reply(m, j.outcome())
	}
}

func (s *server) finish(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		j.end("completed")
	}
	go s.text(r.message, "finished")
}
