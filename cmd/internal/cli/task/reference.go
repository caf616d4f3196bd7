package task

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	lastTask   = "last" // the newest task
	minRef     = 6      // characters of an id that may stand for it
	searchMost = 10_000 // tasks that are looked through for a part of an id
)

// taskID finds the task that is meant: by its id, by the beginning or end of it, or the newest one.
func taskID(ctx context.Context, s *discover.Session, ref string) (string, error) {
	ref = strings.ToLower(strings.TrimSpace(ref))
	if regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(ref) {
		return ref, nil
	}
	if ref == lastTask {
		newest, err := newestTask(ctx, s)
		return newest.GetId(), cmp.Or(err, noTask(newest))
	}
	if len(ref) < minRef {
		return "", ui.Usagef("%q is too short to name a task", ref).
			Then("give at least %d characters of its id, or last for the newest; pawl tasks lists them", minRef)
	}
	return search(ctx, s, ref)
}

// newestTask is the newest task in one of the states, or in any.
func newestTask(ctx context.Context, s *discover.Session, states ...executorv1.ExecutorStatus) (*executorv1.Task, error) {
	list, err := s.Tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1, Statuses: states})
	if err != nil || len(list.GetTasks()) == 0 {
		return nil, err
	}
	return list.GetTasks()[0], nil
}

// waitingTaskID is taskID for an answer: the last task is the newest that waits, if one does.
func waitingTaskID(ctx context.Context, u *ui.UI, s *discover.Session, ref string) (string, error) {
	if ref != lastTask {
		return taskID(ctx, s, ref)
	}
	newest, err := newestTask(ctx, s)
	if err != nil || newest.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING {
		return newest.GetId(), err
	}
	waiting, err := newestTask(ctx, s, executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING)
	if err != nil || waiting == nil {
		return newest.GetId(), cmp.Or(err, noTask(newest))
	}
	u.Note("the newest task that waits is %s: %s", ui.ShortID(waiting.GetId()), cmp.Or(waiting.GetGoal(), waiting.GetName()))
	return waiting.GetId(), nil
}

func noTask(newest *executorv1.Task) error {
	if newest != nil {
		return nil
	}
	return ui.Errorf("there is no task yet").Then(`pawl run "what you want"`)
}

// search looks for the one task whose id begins or ends with ref.
func search(ctx context.Context, s *discover.Session, ref string) (string, error) {
	var found []string
	req := &executorv1.ListTasksRequest{PageSize: 1000}
	for seen := 0; seen < searchMost; {
		list, err := s.Tasks.ListTasks(ctx, req)
		if err != nil {
			return "", err
		}
		for _, t := range list.GetTasks() {
			if strings.HasPrefix(t.GetId(), ref) || strings.HasSuffix(t.GetId(), ref) {
				found = append(found, t.GetId())
			}
		}
		seen += len(list.GetTasks())
		if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	switch len(found) {
	case 0:
		return "", ui.Errorf("there is no task whose id begins or ends with %q", ref).Then("pawl tasks shows the tasks there are")
	case 1:
		return found[0], nil
	}
	return "", ui.Errorf("%q names %d tasks: %s", ref, len(found), strings.Join(found[:min(len(found), 5)], ", ")).
		Then("give more of the id; its end tells tasks apart best")
}
