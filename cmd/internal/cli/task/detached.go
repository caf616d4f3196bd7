package task

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// answersFile holds, in the data folder, for each task that was answered with --detach, when the newest wait began that a person saw. What
// such a task asks next is not shown by the command that answers.
const answersFile = "answers.json"

// mostAnswers is how many tasks the file holds, the newest ones.
const mostAnswers = 1000

// readAnswers returns the path of the file and what it holds; a file that is missing or cannot be read holds nothing.
func readAnswers(s *discover.Session) (path string, answers map[string]time.Time, err error) {
	at := s.Config()
	dir, err := at.Dir()
	if err != nil {
		return "", nil, err
	}
	path, answers = filepath.Join(dir, answersFile), map[string]time.Time{}
	if raw, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(raw, &answers)
	}
	return path, answers, nil
}

// noteSeen records that a person has seen the waits of a task.
func noteSeen(u *ui.UI, s *discover.Session, taskID string, waits ...*executorv1.Wait) {
	path, answers, err := readAnswers(s)
	if err == nil {
		for _, wait := range waits {
			if t := wait.GetCreateTime().AsTime(); t.After(answers[taskID]) {
				answers[taskID] = t
			}
		}
		ids := slices.Sorted(maps.Keys(answers)) // they begin with the time
		for _, id := range ids[:max(len(ids)-mostAnswers, 0)] {
			delete(answers, id)
		}
		raw, _ := json.Marshal(answers) // times can always be encoded
		err = cmp.Or(os.MkdirAll(filepath.Dir(path), 0o700), discover.WriteFile(path, raw))
	}
	if err != nil {
		u.Warn("what the task asks next may be answered unseen: %v", err)
	}
}

// noteShown records that the waits of a task were shown, if it was answered with --detach before.
func noteShown(u *ui.UI, s *discover.Session, task *executorv1.Task) {
	if _, answers, err := readAnswers(s); err == nil && !answers[task.GetId()].IsZero() {
		noteSeen(u, s, task.GetId(), task.GetWaits()...)
	}
}

// shownBefore returns an error if the wait is newer than the command, or than what was shown of a task that was answered with --detach: a person who
// names no wait means the one that was shown.
func shownBefore(s *discover.Session, task *executorv1.Task, wait *executorv1.Wait, began time.Time) error {
	_, answers, err := readAnswers(s)
	if err != nil {
		return err
	}
	asked, seen := wait.GetCreateTime().AsTime(), answers[task.GetId()]
	if !asked.After(began) && (seen.IsZero() || !asked.After(seen)) {
		return nil
	}
	id := ui.ShortID(task.GetId())
	return ui.Errorf("task %s asks something new, about %s %s: nothing is answered that was not shown", id, ui.Line(wait.GetToolId()), ui.CompactJSON(wait.GetInputJson())).
		Then("%s", ways(id, wait, s.Flags())[0].command)
}
