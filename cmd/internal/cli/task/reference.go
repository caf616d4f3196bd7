package task

import (
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
		return newestTask(ctx, s)
	}
	if len(ref) < minRef {
		return "", ui.Usagef("%q is too short to name a task", ref).
			Then("give at least %d characters of its id, or last for the newest; pawl tasks lists them", minRef)
	}
	return search(ctx, s, ref)
}

func newestTask(ctx context.Context, s *discover.Session) (string, error) {
	list, err := s.Tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1})
	if err != nil {
		return "", err
	}
	if len(list.GetTasks()) == 0 {
		return "", ui.Errorf("there is no task yet").Then(`pawl run "what you want"`)
	}
	return list.GetTasks()[0].GetId(), nil
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
