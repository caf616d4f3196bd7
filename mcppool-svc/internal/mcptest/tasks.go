package mcptest

import (
	"fmt"
	"maps"
	"slices"
)

const asTask, asTaskOrNot = `,"execution":{"taskSupport":"required"}`, `,"execution":{"taskSupport":"optional"}`

// taskTools are tools that run as tasks, and finish and lose, which end and forget all tasks.
var taskTools = []tool{
	{"job", "Takes until finish.", asTask, startJob("working")},
	{"askingjob", "Asks, then ends.", asTask, startJob("input_required")},
	{"samplingjob", "Asks a model, then ends.", asTask, startJob("input_required")},
	{"failingjob", "Fails.", asTask, startJob("failed")},
	{"maybejob", "Says how it was called.", asTaskOrNot, startJob("completed")},
	{"finish", "Ends all jobs.", "", func(r *request) {
		r.mu.Lock()
		all := slices.Collect(maps.Values(r.jobs))
		r.mu.Unlock()
		for _, j := range all {
			r.setStatus(j, "completed", "")
		}
		r.text("finished")
	}},
	{"lose", "Forgets all jobs.", "", func(r *request) {
		r.mu.Lock()
		clear(r.jobs)
		r.mu.Unlock()
		r.text("lost")
	}},
}

// job is a task.
type job struct {
	id, tool string
	question question
	ended    chan struct{}

	status string // guarded by the server's mu
	answer string // guarded by mu; to its question
	asked  bool   // guarded by mu
}

// startJob returns a tool that begins a task with a status.
func startJob(status string) func(*request) {
	return func(r *request) {
		if !r.modern() && len(r.Params.Task) == 0 {
			if r.Params.Name == "maybejob" {
				r.text("maybejob at once")
			} else {
				r.fail(-32601, "the tool is done as a task only")
			}
			return
		}
		j := &job{tool: r.Params.Name, question: forName("name", "Job name?"), status: "working", ended: make(chan struct{})}
		if j.tool == "samplingjob" {
			j.question = r.forModel()
		}
		r.mu.Lock()
		j.id = fmt.Sprintf("job-%d", len(r.jobs)+1)
		r.jobs[j.id] = j
		r.mu.Unlock()
		r.setStatus(j, status, "")
		if r.modern() {
			r.reply(`{"resultType":"task",` + r.describe(j)[1:])
			return
		}
		r.reply(`{"task":` + r.describe(j) + `}`)
	}
}

// setStatus sets the status of a task that has not ended, and the answer if its client gave one.
func (s *server) setStatus(j *job, status, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.status != "working" && j.status != "input_required":
		return
	case status != "working" && status != "input_required":
		close(j.ended)
	}
	j.status, j.answer = status, answer
}

// state returns the status and the result of a task.
func (s *server) state(j *job) (status, result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return j.status, textResult(j.tool + " done " + j.answer)
}

func (s *server) describe(j *job) string {
	ttl, poll := "ttl", "pollInterval"
	if s.modern() {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	status, _ := s.state(j)
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z",%q:60000,%q:50}`,
		j.id, status, ttl, poll)
}

// ofJob returns a method that concerns a task.
func ofJob(run func(*request, *job)) func(*request) {
	return func(r *request) {
		r.mu.Lock()
		j := r.jobs[r.Params.TaskID]
		r.mu.Unlock()
		if j == nil {
			r.fail(-32602, "Failed to retrieve task: Task not found")
			return
		}
		run(r, j)
	}
}

// taskGet describes a task. Since 2026-07-28 the description has its question or result.
func (r *request) taskGet(j *job) {
	if !r.modern() {
		r.reply(r.describe(j))
		return
	}
	more := ""
	switch status, result := r.state(j); status {
	case "input_required":
		more = fmt.Sprintf(`"inputRequests":{"name":{"method":%q,"params":%s}},`, j.question.method, j.question.params)
	case "completed":
		more = `"result":` + result + `,`
	case "failed":
		more = `"error":{"code":-32603,"message":"the job broke"},`
	}
	r.reply(`{"resultType":"complete",` + more + r.describe(j)[1:])
}

// taskUpdate takes the answer to a task's question.
func (r *request) taskUpdate(j *job) {
	if answer := r.Params.InputResponses["name"]; answer != nil {
		r.setStatus(j, "completed", string(answer))
	}
	r.reply(`{"resultType":"complete"}`)
}

func (r *request) taskCancel(j *job) {
	r.setStatus(j, "cancelled", "")
	r.reply(r.describe(j))
}

// taskResult waits until a task ends, and asks the task's question meanwhile, as in the revisions of MCP up to 2025-11-25.
func (r *request) taskResult(j *job) {
	r.mu.Lock()
	ask := j.status == "input_required" && !j.asked
	j.asked = true
	r.mu.Unlock()
	if ask {
		_, ch := r.send(j.question.method, j.question.params, `"io.modelcontextprotocol/related-task":{"taskId":"`+j.id+`"}`)
		r.setStatus(j, "completed", (<-ch).outcome())
	}
	<-j.ended
	switch status, result := r.state(j); status {
	case "failed":
		r.fail(-32603, "the job broke")
	case "cancelled":
		r.fail(-32602, "the job was cancelled")
	default:
		r.reply(result)
	}
}
